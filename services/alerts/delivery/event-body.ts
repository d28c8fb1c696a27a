/**
 * The bodies of an alert event: the event itself, the messages that Discord and Telegram show, and the mail.
 *
 * Rules: DECISIONS.md, "Webhooks". Invariant: the same event gives the same bytes; a name of an item, whatever it holds,
 * stays text in every platform's markup and in HTML, is one line in a subject, and mentions no user. A mail loads nothing,
 * carries List-Unsubscribe with the one-click header (RFC 8058), and the same Message-ID at every try, so that a mailbox
 * recognizes a repeat.
 */
import type { Mail } from '#infra/mail/mailer.ts'
import { ALERT_TRIGGERED, type AlertTriggeredBody } from '#schemas/api/alert-triggered.ts'
import type { WebhookPlatform } from '#schemas/api/webhooks.ts'
import { toDecimal, USD_RATE } from '#schemas/values/money.ts'

type EventData = AlertTriggeredBody['data']

/** A row of alert_events, as far as it is sent. */
export interface AlertEvent extends Omit<EventData, 'best_ask_usd' | 'best_bid_usd' | 'providers'> {
  id: string
  account_id: string
  created_at: string
  best_ask_micro_usd: string
  best_bid_micro_usd: string | null
  ask_provider: string
  bid_provider: string | null
}

export const EVENT_COLUMNS = `id, account_id, created_at, best_ask_micro_usd, best_bid_micro_usd, ask_provider, bid_provider, alert_id, kind,
  item_id, market_hash_name, phase, threshold_value, threshold_currency, triggered_value, triggered_currency`

/** The event as custom and google_sheets destinations get it. */
export function eventBodyOf(event: AlertEvent): AlertTriggeredBody {
  const {
    id,
    account_id: _,
    created_at,
    best_ask_micro_usd,
    best_bid_micro_usd,
    ask_provider,
    bid_provider,
    ...data
  } = event
  const usd = (micro: string): string => toDecimal(Number(micro), USD_RATE)
  return {
    id,
    type: ALERT_TRIGGERED,
    created_at,
    data: {
      ...data,
      best_ask_usd: usd(best_ask_micro_usd),
      best_bid_usd: best_bid_micro_usd === null ? null : usd(best_bid_micro_usd),
      providers: { ask: ask_provider, bid: bid_provider },
    },
  }
}

export function bodyFor(platform: WebhookPlatform, url: string, event: AlertTriggeredBody): string {
  if (platform === 'discord') return JSON.stringify(discordMessage(event))
  return JSON.stringify(platform === 'telegram' ? telegramMessage(url, event) : event)
}

/** A platform of its own message could not check a signature. */
export const isSigned = (platform: WebhookPlatform): boolean => platform === 'custom' || platform === 'google_sheets'

/** Name of an item with its phase, as people write it. */
const itemText = ({ market_hash_name, phase }: EventData): string =>
  phase === null ? market_hash_name : `${market_hash_name} (${phase})`

function happening(data: EventData): string {
  const { kind, threshold_value, threshold_currency, triggered_value, triggered_currency } = data
  if (kind === 'spread_exceeds') return `The spread is ${triggered_value} %, above ${threshold_value} %.`
  const side = kind === 'price_below' ? 'below' : 'above'
  return `The best ask is ${triggered_value} ${triggered_currency}, ${side} ${threshold_value} ${threshold_currency}.`
}

/** The best prices as label and text. */
function quotes({ best_ask_usd, best_bid_usd, providers }: EventData): [string, string][] {
  const ask: [string, string] = ['Best ask', `${best_ask_usd} USD at ${providers.ask}`]
  if (best_bid_usd === null) return [ask]
  return [ask, ['Best bid', `${best_bid_usd} USD at ${providers.bid}`]]
}

const DISCORD_COLOR = 0x2f_80_ed

function discordMessage(event: AlertTriggeredBody) {
  const { data } = event
  const title = inDiscord(itemText(data))
  return {
    content: `Alert: ${title}`,
    embeds: [
      {
        title,
        description: inDiscord(happening(data)),
        color: DISCORD_COLOR,
        timestamp: event.created_at,
        fields: quotes(data).map(([name, value]) => ({ name, value: inDiscord(value), inline: true })),
        footer: { text: `Event ${event.id}` },
      },
    ],
  }
}

/** Escapes Discord's Markdown, and keeps `@everyone` and `<@id>` from mentioning anybody. */
const inDiscord = (text: string): string =>
  text.replaceAll(/[\\*_~`|>#[\]()<:-]/g, mark => `\\${mark}`).replaceAll('@', '@\u200b')

function telegramMessage(url: string, { data }: AlertTriggeredBody) {
  const lines = [`<b>${inHtml(itemText(data))}</b>`, inHtml(happening(data))]
  for (const [label, value] of quotes(data)) lines.push(`${label}: ${inHtml(value)}`)
  return { chat_id: new URL(url).searchParams.get('chat_id') ?? '', text: lines.join('\n'), parse_mode: 'HTML' }
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

/** Escapes text for HTML, inside and outside of attributes. */
const inHtml = (text: string): string => text.replaceAll(/[&<>"']/g, mark => ENTITIES[mark] ?? '')

const CLOSING = 'The alert has been switched off. Switch it on again to hear of the next time.'
const CONTROLS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu

/** Writes the mail of an event; `host` is that of the Message-ID. */
export function alertMail(
  event: AlertTriggeredBody,
  target: { to: string; host: string; unsubscribeUrl: string },
): Mail {
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
