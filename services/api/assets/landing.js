/**
 * The price of the landing page: a recorded sample until a key is pasted, then the asks of this host.
 *
 * The key is kept in the storage of its tab's session and sent as a header to this host alone. A key whose tier has feeds opens
 * one; for any other the asks are read again once a minute while the page is seen, since each reading counts against its month.
 */
const STORED = 'marketlog-key'
const READ_EVERY_MS = 60_000
const ANSWER_LIMIT_MS = 15_000
const ROWS = 5

const [card, badge, item, amount, state, sample, table, form, field, connected, forget] = [
  ...['price', 'badge', 'item', 'amount', 'state', 'sample', 'asks', 'connect', 'key', 'connected', 'forget'],
].map(id => document.getElementById(id))
const recorded = { amount: amount.textContent, state: state.textContent, badge: badge.textContent }
const dollars = new Intl.NumberFormat('en', { style: 'currency', currency: 'USD' })
/** Provider → its ask in cents and its units. */
const asks = new Map()
/** Provider → the name that it is shown by. */
const names = new Map()
/** Ends what the key before has begun. */
let ending = new AbortController()

async function ask(path, key, signal, method = 'GET') {
  const response = await fetch(path, {
    method,
    headers: { authorization: `Bearer ${key}` },
    cache: 'no-store',
    signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_LIMIT_MS)]),
  })
  const body = await response.json()
  if (response.ok) return { body, headers: response.headers }
  const isRefused = response.status === 401 || response.status === 403
  throw Object.assign(new Error(typeof body.detail === 'string' ? body.detail : body.code), { isRefused })
}

/** Shows prices by a key until it is forgotten or refused. */
async function connect(key) {
  ending.abort()
  ending = new AbortController()
  const { signal } = ending
  asks.clear()
  showAsks()
  show('Connecting', 'Asking this host.', false)
  try {
    const providers = await ask('providers', key, signal)
    for (const [name, { key: provider }] of Object.entries(providers.body)) names.set(provider, name)
    sessionStorage.setItem(STORED, key)
    const tier = providers.headers.get('x-ratelimit-tier')
    if (card.dataset.feedTiers.split(', ').includes(tier)) await follow(key, signal)
    else await read(key, signal, tier)
  } catch (error) {
    if (!signal.aborted) fail(key, signal, error)
  }
}

/** Follows the feed, whose state comes first. EventSource resumes by itself; once it has given up, a new one begins. */
async function follow(key, signal) {
  const { body } = await ask('feed/token', key, signal, 'POST')
  const query = { market_hash_names: item.textContent, snapshot: true, resume: true, token: body.token }
  const source = new EventSource(`feed/prices?${new URLSearchParams(query)}`)
  signal.addEventListener('abort', () => source.close())
  source.addEventListener('resync', () => asks.clear())
  source.addEventListener('open', () => show('Live', 'By the feed of this host, as marketplaces report.', true))
  source.addEventListener('prices.changed', ({ data }) => {
    const { provider, items } = JSON.parse(data)
    for (const { price, qty, change } of items) {
      if (change === 'removed') asks.delete(provider)
      else asks.set(provider, { price, units: qty })
    }
    showAsks()
  })
  source.addEventListener('error', () => {
    if (signal.aborted) return
    show('Interrupted', 'The feed was cut; it resumes where it was.', false)
    if (source.readyState === EventSource.CLOSED) again(signal, () => connect(key))
  })
}

async function read(key, signal, tier) {
  const { body, headers } = await ask(
    `prices?${new URLSearchParams({ market_hash_name: item.textContent })}`,
    key,
    signal,
  )
  asks.clear()
  for (const { provider, lowest_ask, quantity } of body.items)
    asks.set(provider, { price: lowest_ask, units: quantity })
  showAsks()
  const left = headers.get('x-ratelimit-remaining')
  show(
    'Every minute',
    `The tier ${tier} has no live feed, so this asks once a minute; ${left} requests are left this month.`,
    true,
  )
  again(signal, () => read(key, signal, tier).catch(error => signal.aborted || fail(key, signal, error)))
}

/** Does something in a minute, or once the page is seen again. */
function again(signal, work) {
  const timer = setTimeout(() => {
    if (!document.hidden) work()
    else document.addEventListener('visibilitychange', work, { once: true, signal })
  }, READ_EVERY_MS)
  signal.addEventListener('abort', () => clearTimeout(timer))
}

function fail(key, signal, { message, isRefused }) {
  if (isRefused) return rest(message)
  show('Interrupted', `${message} This is tried again in a minute.`, false)
  again(signal, () => connect(key))
}

/** Back to the sample, without a key; `reason` is why one was refused. */
function rest(reason) {
  ending.abort()
  sessionStorage.removeItem(STORED)
  show(recorded.badge, reason ? `${reason} ${recorded.state}` : recorded.state, false)
  amount.textContent = recorded.amount
  sample.hidden = false
  table.hidden = true
  form.hidden = false
  connected.hidden = true
}

function show(label, text, isLive) {
  badge.textContent = label
  badge.classList.toggle('live', isLive)
  // It is read out whenever it is set.
  if (state.textContent !== text) state.textContent = text
  form.hidden = true
  connected.hidden = false
}

function showAsks() {
  const rows = [...asks].sort(([, one], [, other]) => one.price - other.price)
  sample.hidden = true
  table.hidden = rows.length === 0
  amount.textContent = rows.length === 0 ? '–' : dollars.format(rows[0][1].price / 100)
  table.tBodies[0].replaceChildren(
    ...rows.slice(0, ROWS).map(([provider, { price, units }]) => {
      const row = document.createElement('tr')
      for (const text of [names.get(provider) ?? provider, units, dollars.format(price / 100)]) {
        row.insertCell().textContent = text
      }
      return row
    }),
  )
}

form.addEventListener('submit', event => {
  event.preventDefault()
  const key = field.value.trim()
  field.value = ''
  void connect(key)
})
forget.addEventListener('click', () => {
  rest()
  field.focus()
})
const stored = sessionStorage.getItem(STORED)
if (stored !== null) void connect(stored)
