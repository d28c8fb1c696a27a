import { expect } from 'chai'
import fc from 'fast-check'
import { newSecretKey } from '#infra/runtime/sealed-box.ts'
import { type AlertTriggeredBody, alertTriggeredBody } from '#schemas/api/alert-triggered.ts'
import { openUnsubscribeLinks } from '#services/accounts/reader.ts'
import { safeExcerpt } from '#services/alerts/delivery/attempt-outcome.ts'
import { type AlertEvent, alertMail, bodyFor, eventBodyOf } from '#services/alerts/delivery/event-body.ts'

const row: AlertEvent = {
  id: '0195a3d0-10f3-7d11-a2b4-0c9d8e7f6a5b',
  account_id: '4b6f1f0e-3f4e-4c55-9a0e-2f5a6d1c7b90',
  alert_id: '0195a3b0-2f10-7a54-9c1d-3e2f1a0b9c8d',
  item_id: 7,
  market_hash_name: '★ <b>Knife</b> & "Co" | @everyone *Doppler*',
  phase: 'Ruby',
  kind: 'price_below',
  threshold_value: '30.00',
  threshold_currency: 'USD',
  triggered_value: '29.31',
  triggered_currency: 'USD',
  best_ask_micro_usd: '29310000',
  best_bid_micro_usd: '512345',
  ask_provider: 'provider_02',
  bid_provider: 'provider_12',
  created_at: '2026-03-03T21:41:00.000Z',
}
const event = eventBodyOf(row)
const spread = eventBodyOf({
  ...row,
  kind: 'spread_exceeds',
  threshold_value: '12.5',
  threshold_currency: null,
  triggered_value: '13.0000',
  triggered_currency: null,
  best_bid_micro_usd: null,
  bid_provider: null,
})
const recipient = {
  to: 'you@example.com',
  host: 'market.example',
  unsubscribeUrl: 'https://market.example/v1/u?token=a&b',
}

describe('bodies of an event', () => {
  it('hold the members of their schema, prices as decimal texts of adaptive precision', () => {
    for (const one of [event, spread]) expect(alertTriggeredBody.parse(one)).to.deep.equal(one)
    expect(event.data).to.include({ best_ask_usd: '29.31', best_bid_usd: '0.51234500' })
    expect(spread.data).to.include({ best_bid_usd: null, threshold_currency: null })
    expect(spread.data.providers).to.deep.equal({ ask: 'provider_02', bid: null })
  })

  for (const platform of ['custom', 'google_sheets'] as const)
    it(`are the event itself for ${platform}`, () => {
      expect(JSON.parse(bodyFor(platform, 'https://a.example', event))).to.deep.equal(event)
    })

  it('are content and embeds for discord, and a name neither formats nor mentions', () => {
    const body = JSON.parse(bodyFor('discord', 'https://discord.example/api/webhooks/1/x', event))
    expect(Object.keys(body)).to.deep.equal(['content', 'embeds'])
    expect(body.embeds).to.have.length(1)
    expect(body.content).not.to.match(/@everyone|(?<!\\)[*_`|]/)
    expect(body.embeds[0].description).to.include('29')
  })

  it('are chat_id, text and parse_mode for telegram, with the chat of the URL and an escaped name', () => {
    const url = 'https://api.telegram.example/bot1:x/sendMessage?chat_id=-100123'
    const body = JSON.parse(bodyFor('telegram', url, event))
    expect(Object.keys(body)).to.deep.equal(['chat_id', 'text', 'parse_mode'])
    expect(body).to.include({ chat_id: '-100123', parse_mode: 'HTML' })
    expect(body.text.match(/<(?!\/?b>)/g), 'tags beside our own').to.equal(null)
    expect(body.text).to.include('&lt;b&gt;Knife&lt;/b&gt; &amp;')
  })
})

describe('the mail of an event', () => {
  it('escapes the item in HTML, keeps it as it is in text, and loads nothing', () => {
    const { html = '', text, subject } = alertMail(event, recipient)
    expect(html).not.to.include('<b>Knife')
    expect(html).to.include('&lt;b&gt;Knife&lt;/b&gt; &amp; &quot;Co&quot;')
    expect(html).not.to.match(/<(img|script|link|iframe)/i)
    expect(html.match(/https?:[^"]*/g)).to.deep.equal(['https://market.example/v1/u?token=a&amp;b'])
    expect(text).to.include(row.market_hash_name)
    expect(subject).to.include('Ruby')
  })

  it('has a subject of one line, whatever the item is called', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), name => {
        const named: AlertTriggeredBody = { ...event, data: { ...event.data, market_hash_name: name, phase: null } }
        expect(alertMail(named, recipient).subject).not.to.match(/[\p{Cc}\u2028\u2029]/u)
      }),
    )
  })
})

describe('the excerpt of an answer', () => {
  it('is null when nothing is left, and holds no control or bidi characters', () => {
    expect(safeExcerpt(Buffer.from(''), [])).to.equal(null)
    expect(safeExcerpt(Buffer.from('\u0000\u001b[31m \u202e'), [])).to.equal('[31m')
    expect(safeExcerpt(Buffer.from('a\r\nb\tc\u0007'), [])).to.equal('a\nb c')
  })

  it('holds at most 1024 bytes of whole characters, of any bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 4_096 }), bytes => {
        const text = safeExcerpt(Buffer.from(bytes), []) ?? ''
        expect(Buffer.byteLength(text)).to.be.at.most(1_024)
        expect(text.replaceAll('\n', '')).not.to.match(/[\p{Cc}\uFFFD]/u)
      }),
    )
    const long = safeExcerpt(Buffer.from('ü'.repeat(2_000)), []) ?? ''
    expect(long).to.equal('ü'.repeat(512))
  })

  it('holds no secret: none that was given, no key, no signing secret', () => {
    const echoed = `sig=abcdef0123456789 key sk_live_root_${'A'.repeat(43)} whsec_${'b'.repeat(43)} done`
    expect(safeExcerpt(Buffer.from(echoed), ['abcdef0123456789', ''])).to.equal('sig=[cut] key [cut] [cut] done')
  })
})

describe('the link to unsubscribe', () => {
  const links = openUnsubscribeLinks(newSecretKey(), 'https://market.example')
  const tokenOf = (link: string) => new URL(link).searchParams.get('token') ?? ''

  it('names its account, and no other text does', () => {
    const token = tokenOf(links.linkFor(row.account_id))
    expect(links.accountOf(token)).to.equal(row.account_id)
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 42 }), fc.constantFrom(...'Ab9_-'), (at, letter) => {
        const changed = token.slice(0, at) + letter + token.slice(at + 1)
        if (changed !== token && Buffer.from(changed, 'base64url').compare(Buffer.from(token, 'base64url')) !== 0) {
          expect(links.accountOf(changed)).to.equal(undefined)
        }
      }),
    )
    for (const text of ['', 'x', `${token}A`, token.slice(1)]) expect(links.accountOf(text)).to.equal(undefined)
  })

  it('is of no use with another key', () => {
    const other = openUnsubscribeLinks(newSecretKey(), 'https://market.example')
    expect(other.accountOf(tokenOf(links.linkFor(row.account_id)))).to.equal(undefined)
  })
})
