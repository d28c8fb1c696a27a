/**
 * What each parameter and body member means, for the API's description: one text and one example per name.
 *
 * A name means the same everywhere. Types, bounds and allowed values are those of the zod schemas;
 * nothing here is checked against a request.
 */

import { PORTFOLIO_NOTES } from './portfolio-notes.ts'

/** The prose about a name. */
export interface MemberNote {
  description: string
  example: unknown
}

/** By parameter or member name. */
export const MEMBER_NOTES: Record<string, MemberNote> = {
  ...PORTFOLIO_NOTES,
  item_id: {
    description: 'Catalog id of one item. Takes precedence over `market_hash_name` and `phase`.',
    example: 4940,
  },
  market_hash_name: {
    description: 'Exact name of an item. Without `phase` it stands for all phases of a phased finish.',
    example: 'AK-47 | Redline (Field-Tested)',
  },
  phase: { description: 'Phase of a phased finish.', example: 'Ruby' },
  providers: {
    description: 'Provider keys. In a query the parameter is repeated once per key. All when left out.',
    example: ['provider_02', 'provider_12'],
  },
  provider: { description: 'One provider key.', example: 'provider_02' },
  currency: { description: 'Code of the currency of amounts, one that `GET /v1/fx` lists.', example: 'EUR' },
  limit: {
    description:
      'Entries of a page. Prices and bids: at most and by default 100 on free, 1000 above; sales: 100 on pro, 1000 on quant; history: 100 by default; items: all matches when left out.',
    example: 50,
  },
  offset: { description: 'Entries to leave out from the start.', example: 0 },
  cursor: { description: '`next_cursor` of the page before, sent with the same filters.', example: 'rO0ABXNyABFqYXZh' },
  start: {
    description:
      'Inclusive start of the window: `YYYY-MM-DD`, `YYYY-MM-DDThh:mm:ss` or ISO 8601; UTC without an offset.',
    example: '2026-03-01',
  },
  end: { description: 'Exclusive end of the window, written as `start` is. Now when left out.', example: '2026-03-08' },
  lookback: {
    description:
      'Length of a window that ends now: `30` or `30d` for days, `48h` for hours (pro and quant). Wins over start and end.',
    example: '7d',
  },
  interval: { description: 'Length of a candle. Free and starter have `1d` alone.', example: '1d' },
  fill: { description: 'Fill empty buckets with the previous close (pro and quant).', example: false },
  min_float: { description: 'Least float value, included.', example: 0.15 },
  max_float: { description: 'Greatest float value, included.', example: 0.38 },
  paint_seed: { description: 'Exact paint seed.', example: 661 },
  stickers: {
    description: 'Names of stickers that must all be applied; repeated once per name.',
    example: ['Crown (Foil)'],
  },
  charms: { description: 'Name of a charm that must be attached.', example: "Lil' Ava" },
  q: { description: 'Part of a name, in any case; where no name has it, words in any order.', example: 'redline' },
  item_type: { description: 'Class of the item, such as Weapon, Sticker or Crate; in any case.', example: 'Weapon' },
  item_subtype: {
    description: 'Family within the class, such as Rifles or Autograph; in any case.',
    example: 'Rifles',
  },
  weapon_type: {
    description: 'Kind of weapon, such as Assault Rifle or Knife; in any case.',
    example: 'Assault Rifle',
  },
  base_name: { description: 'Model, such as AK-47 or Karambit; in any case.', example: 'AK-47' },
  skin_name: { description: 'Name of the finish, in any case.', example: 'Redline' },
  wear_name: { description: 'Name of the wear.', example: 'Field-Tested' },
  collection: { description: 'Collection, in any case.', example: 'The Phoenix Collection' },
  crates: {
    description: 'Crates that hold the item; repeated once per crate.',
    example: ['Operation Phoenix Weapon Case'],
  },
  rarity_name: { description: 'Name of the rarity.', example: 'Classified' },
  rarity_color: { description: 'Colour of the rarity: six hex digits, or a name of the colour.', example: 'd32ce6' },
  style_name: { description: 'Name of the finish style.', example: 'Custom Paint Job' },
  is_stattrak: { description: 'Whether the item counts kills.', example: false },
  is_souvenir: { description: 'Whether the item is a souvenir.', example: false },
  format: { description: 'Suffix of the image URLs.', example: 'png' },
  min_spread_pct: { description: 'Least gross spread in percent, before fees.', example: 2.5 },
  providers_buy: {
    description: 'Keys of the providers to buy from; repeated once per key. All when left out.',
    example: ['provider_05'],
  },
  providers_sell: {
    description: 'Keys of the providers of buy orders to sell to; repeated once per key. All when left out.',
    example: ['provider_02'],
  },
  group_by: { description: 'Category of the groups.', example: 'item_type' },
  include_defunct: {
    description: 'Also show providers that have shut down but keep history.',
    example: false,
  },
  item_ids: { description: 'Catalog ids. Ids and names together at most 100.', example: [4940, 4941] },
  id: { description: 'Id of the record.', example: '9d0c2a4e-7b1d-4f7e-8f6a-51c3f2b8e6d4' },
  name: { description: 'Name, 1 to 100 characters.', example: 'dashboard' },
  quota_requests_per_month_override: {
    description: 'Requests of a calendar month, at most the tier’s.',
    example: 50_000,
  },
  rate_requests_per_minute_override: { description: 'Requests of a minute, at most the tier’s.', example: 60 },
  alert_id: { description: 'Id of the alert.', example: '019515d4-8a00-7c31-9b52-6f0de1a4c733' },
  kind: {
    description: 'What to watch: the best ask below or above the threshold, or (ask - bid) / ask x 100 above it.',
    example: 'price_below',
  },
  threshold_value: {
    description: 'Decimal text above zero: a price in major units of `threshold_currency`, or a percentage.',
    example: '13.50',
  },
  threshold_currency: {
    description: 'Currency of a price threshold, USD when left out; spreads ignore it.',
    example: 'EUR',
  },
  is_enabled: { description: 'Whether the alert waits for its condition.', example: true },
  alerts: {
    description: '1 to 100 alerts.',
    example: [{ item_id: 4940, kind: 'price_below', threshold_value: '13.50', threshold_currency: 'EUR' }],
  },
  search: { description: 'An item id, or part of a name in any case.', example: 'redline' },
  label: { description: 'Name of the destination, 1 to 100 characters.', example: 'Trading bot' },
  url: {
    description: 'HTTP or HTTPS URL without user info; for telegram with a `chat_id` parameter.',
    example: 'https://bot.example.com/hooks/prices',
  },
  platform: { description: 'What the destination is, which decides the body that it gets.', example: 'custom' },
  is_active: { description: 'false pauses the destination.', example: true },
  state: { description: 'Text that came along from the begin.', example: 'pWc8Zr0nQ2b4' },
  code: {
    description: 'Code of a sign-in that came back.',
    example: 'code_Zm9yIG9uZSB1c2Ugb25seSwgbm90IGEgcmVhbCBjb2Q',
  },
  refresh_token: {
    description: 'The newest refresh token of the session.',
    example: 'refresh_Zm9yIG9uZSB1c2Ugb25seSwgbm90IGEgcmVhbCBvbmU',
  },
  token: { description: 'Text of the link.', example: 'verify_Zm9yIG9uZSB1c2Ugb25seSwgbm90IGEgcmVhbCBvbmU' },
  email: { description: 'E-mail address.', example: 'trader@example.com' },
  market_hash_names: {
    description:
      'Exact names; that of a phased finish stands for its cheapest phase. Ids and names together at most 100.',
    example: ['AK-47 | Redline (Field-Tested)'],
  },
}
