/**
 * The mail of an alert event, as text and as HTML.
 *
 * Invariant: an item's name is text in the HTML and one line in the subject, whatever it holds; the mail loads nothing. It
 * carries List-Unsubscribe with the one-click header (RFC 8058), and the same Message-ID at every try, so that a mailbox
 * recognizes a repeat.
 */
import type { Mail } from '#infra/mail/mailer.ts'
import type { AlertTriggeredBody } from '#schemas/api/alert-triggered.ts'
import { happening, inHtml, itemText, quotes } from './event-body.ts'

/** Where a mail goes and what it links to. */
interface MailTarget {
  to: string
  /** Host of the Message-ID. */
  host: string
  unsubscribeUrl: string
}

const CLOSING = 'The alert has been switched off. Switch it on again to hear of the next time.'
const CONTROLS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu

/** Writes the mail of an event. */
export function alertMail(event: AlertTriggeredBody, target: MailTarget): Mail {
  const item = itemText(event.data).replaceAll(CONTROLS, ' ')
  return {
    to: target.to,
    subject: `Price alert: ${item}`,
    text: textOf(event, item, target.unsubscribeUrl),
    html: htmlOf(event, item, target.unsubscribeUrl),
    messageId: `<alert-${event.id}@${target.host}>`,
    headers: {
      'List-Unsubscribe': `<${target.unsubscribeUrl}>`,
      'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
      'Auto-Submitted': 'auto-generated',
    },
  }
}

function textOf({ data, created_at }: AlertTriggeredBody, item: string, unsubscribeUrl: string): string {
  const lines = quotes(data).map(([label, value]) => `${label}: ${value}`)
  const parts = [item, happening(data), lines.join('\n'), `Seen ${created_at}.`, CLOSING]
  return `${parts.join('\n\n')}\n\n--\nNo alerts by e-mail any more: ${unsubscribeUrl}\n`
}

function htmlOf({ data, created_at }: AlertTriggeredBody, item: string, unsubscribeUrl: string): string {
  const rows = quotes(data).map(
    ([label, value]) => `<tr><td style="padding-right:16px">${inHtml(label)}</td><td>${inHtml(value)}</td></tr>`,
  )
  return [
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Price alert</title></head>',
    '<body style="font-family:sans-serif;max-width:560px;margin:0 auto;padding:16px">',
    `<h1 style="font-size:18px">${inHtml(item)}</h1>`,
    `<p>${inHtml(happening(data))}</p>`,
    `<table>${rows.join('')}</table>`,
    `<p>Seen ${inHtml(created_at)}.</p><p>${CLOSING}</p>`,
    `<p style="color:#666;font-size:12px"><a href="${inHtml(unsubscribeUrl)}">No alerts by e-mail any more</a></p>`,
    '</body></html>',
  ].join('\n')
}
