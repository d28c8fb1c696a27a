/**
 * The operations of portfolios.
 *
 * Rules: DECISIONS.md, "Portfolios and inventories" and "Valuation".
 */
import type { ErrorCode } from './error.ts'
import { ALL, get, json, type Operation, type OperationScope, patch, post, type Reply, remove } from './operation.ts'
import { dailyQuery, dailyReply, performanceReply, valueBody, valueQuery, valueReply } from './portfolio-values.ts'
import {
  csvMembers,
  entriesReply,
  entryBody,
  entryParams,
  entryReply,
  exportQuery,
  importBody,
  importReply,
  portfolioBody,
  portfolioFile,
  portfolioParams,
  portfolioReply,
  portfoliosReply,
} from './portfolios.ts'
import {
  transactionBody,
  transactionParams,
  transactionPatch,
  transactionReply,
  transactionsReply,
} from './transactions.ts'

const GROUP = 'Portfolio'
const OPEN = { tiers: ALL, access: 'account' } as const
const OWN = { ...OPEN, params: portfolioParams } as const
const MISSING: ErrorCode[] = ['PORTFOLIO_NOT_FOUND']
const PRICED: ErrorCode[] = [...MISSING, 'PRICES_INDEX_UNAVAILABLE', 'BIDS_INDEX_UNAVAILABLE']
const isCurrency = () => true
/** Which day is the last depends on when a request comes. */
const ledger = { isCurrency, latestDay: () => '9999-12-31' }
const AMOUNTS = 'Amounts are integers in hundredths of the currency.'
const nothing: Reply = { status: 204, description: 'It is gone.' }

/** All operations of portfolios. */
export function portfolioOperations(scope: OperationScope): Operation[] {
  return [...wholePortfolios(), ...valuations(scope), ...entries(), ...transactions(), ...files()]
}

function wholePortfolios(): Operation[] {
  return [
    {
      ...{ ...post('createPortfolio', '/portfolio', GROUP), ...OPEN, isCreate: true },
      summary: 'Create an empty portfolio',
      description: 'An account may have 20 portfolios on free and starter, 50 on pro, 1000 on quant.',
      body: portfolioBody,
      reply: json('PortfolioReply', portfolioReply, 'The new portfolio.', 201),
      errors: ['PORTFOLIO_LIMIT_REACHED'],
    },
    {
      ...{ ...get('listPortfolios', '/portfolio', GROUP), ...OPEN },
      summary: 'Portfolios of the account',
      description: 'Oldest first.',
      reply: json('PortfoliosReply', portfoliosReply, 'All portfolios.'),
      errors: [],
    },
    {
      ...{ ...remove('deletePortfolio', '/portfolio/:id', GROUP), ...OWN },
      summary: 'Delete a portfolio with all that it holds',
      description: 'Cannot be undone.',
      reply: nothing,
      errors: MISSING,
    },
  ]
}

function valuations({ askKeys: providers }: OperationScope): Operation[] {
  const scope = { providers, isCurrency }
  return [
    {
      ...{ ...post('valueItems', '/portfolio/value', GROUP), ...OPEN },
      summary: 'Value a list of items by the current best asks',
      description: `Stores nothing. Up to 100 items. ${AMOUNTS} An item that nobody lists has null prices.`,
      body: valueBody(scope),
      reply: json('ValueReply', valueReply, 'One line per item of the request that the catalog has.'),
      errors: ['PRICES_INDEX_UNAVAILABLE', 'BIDS_INDEX_UNAVAILABLE'],
    },
    {
      ...{ ...get('valuePortfolio', '/portfolio/:id/value', GROUP), ...OWN },
      summary: 'Value a portfolio by the current best asks',
      description: `One line per item, units of all its entries together. ${AMOUNTS}`,
      query: valueQuery(scope),
      reply: json('ValueReply', valueReply, 'Lines by ascending item id.'),
      errors: PRICED,
    },
    {
      ...{ ...get('listPortfolioDays', '/portfolio/:id/history', GROUP), ...OWN },
      summary: 'Value of a portfolio by day, rebuilt from its ledger',
      description: `From the first transaction to today unless told. A day is worth the lowest close among the providers, carried forward where a day has none, at the exchange rates of that day. ${AMOUNTS}`,
      query: dailyQuery(scope),
      reply: json('DailyReply', dailyReply, 'A page of days, oldest first.'),
      errors: MISSING,
    },
    {
      ...{ ...get('readPerformance', '/portfolio/:id/performance', GROUP), ...OWN },
      summary: 'Cost basis, realised and unrealised profit of the ledger',
      description: `First in, first out. Each transaction is converted at the exchange rates of its day; a basis holds the fees of its buys. ${AMOUNTS}`,
      query: valueQuery(scope),
      reply: json('PerformanceReply', performanceReply, 'Sums, and one row per item of the ledger.'),
      errors: PRICED,
    },
  ]
}

function entries(): Operation[] {
  return [
    {
      ...{ ...get('listEntries', '/portfolio/:id/items', GROUP), ...OWN },
      summary: 'Entries of a portfolio',
      description: 'In the order in which they came.',
      reply: json('EntriesReply', entriesReply, 'All entries.'),
      errors: MISSING,
    },
    {
      ...{ ...post('addEntry', '/portfolio/:id/items', GROUP), ...OWN, isCreate: true },
      summary: 'Add units of an item by hand',
      description: 'One of `item_id` and `market_hash_name` is required. The ledger is not touched.',
      body: entryBody,
      reply: json('EntryReply', entryReply, 'The new entry.', 201),
      errors: [...MISSING, 'ITEM_NOT_FOUND', 'PORTFOLIO_ITEM_LIMIT_REACHED'],
    },
    {
      ...{ ...remove('removeEntry', '/portfolio/:id/items/:entry_id', GROUP), ...OPEN, params: entryParams },
      summary: 'Remove an entry',
      description: '`entry_id` is the id of the entry, not the `item_id`. The ledger is not touched.',
      reply: nothing,
      errors: [...MISSING, 'PORTFOLIO_ENTRY_NOT_FOUND'],
    },
  ]
}

function transactions(): Operation[] {
  const one = { ...OPEN, params: transactionParams }
  return [
    {
      ...{ ...get('listTransactions', '/portfolio/:id/transactions', GROUP), ...OWN },
      summary: 'Transactions of a portfolio, newest first',
      description: 'By date, and on a day by the order of entry.',
      reply: json('TransactionsReply', transactionsReply, 'All transactions.'),
      errors: MISSING,
    },
    {
      ...{ ...post('addTransaction', '/portfolio/:id/transactions', GROUP), ...OWN, isCreate: true },
      summary: 'Record a buy or a sell',
      description:
        'A sell of more than is held on its date is refused; all buys of a day count before its sells. A buy of an item that is not tracked yet makes an entry for it. `price` is that of one unit in hundredths of `currency`.',
      body: transactionBody(ledger),
      reply: json('TransactionReply', transactionReply, 'The new transaction.', 201),
      errors: [...MISSING, 'ITEM_NOT_FOUND', 'INSUFFICIENT_HOLDINGS', 'PORTFOLIO_ITEM_LIMIT_REACHED'],
    },
    {
      ...{ ...patch('changeTransaction', '/portfolio/:id/transactions/:tx_id', GROUP), ...one },
      summary: 'Change a transaction',
      description: 'What is left out stays; fees, marketplace and note are taken away by null.',
      body: transactionPatch(ledger),
      reply: json('TransactionReply', transactionReply, 'The transaction as it is now.'),
      errors: [...MISSING, 'TRANSACTION_NOT_FOUND', 'INSUFFICIENT_HOLDINGS', 'PORTFOLIO_ITEM_LIMIT_REACHED'],
    },
    {
      ...{ ...remove('removeTransaction', '/portfolio/:id/transactions/:tx_id', GROUP), ...one },
      summary: 'Take a transaction back',
      description: 'A buy whose units were sold later cannot be taken back before that sell.',
      reply: nothing,
      errors: [...MISSING, 'TRANSACTION_NOT_FOUND', 'INSUFFICIENT_HOLDINGS', 'PORTFOLIO_ITEM_LIMIT_REACHED'],
    },
  ]
}

const CSV =
  'A ledger has the columns date, type, market_hash_name or item_id, phase, quantity, price, currency, fee_amount, fee_percentage, marketplace, note; a snapshot market_hash_name or item_id, phase, quantity. The header tells which it is. Amounts are hundredths as whole numbers (1250) or units with a decimal point (12.50), one of the two in a file. UTF-8, columns separated by commas.'

function files(): Operation[] {
  return [
    {
      ...{ ...post('importInventory', '/portfolio/:id/import', GROUP), ...OWN, isCreate: true, isBodyOptional: true },
      summary: 'Import the linked inventory',
      description:
        'All of it, or the assets that `asset_ids` lists. Assets that the portfolio has already are skipped; those that match no catalog item are listed in `unresolved`, by name, or by asset id where they have none.',
      body: importBody,
      reply: json('ImportReply', importReply, 'What was done.'),
      errors: [
        ...([...MISSING, 'PLATFORM_ACCOUNT_NOT_LINKED', 'FORBIDDEN', 'NOT_FOUND'] as const),
        ...(['PORTFOLIO_ITEM_LIMIT_REACHED', 'UPSTREAM_ERROR'] as const),
      ],
    },
    {
      ...{ ...post('importCsv', '/portfolio/:id/import/csv', GROUP), ...OWN, isCreate: true },
      summary: 'Import a CSV file, whole or not at all',
      description: `${CSV} A row that cannot be taken is told by its number, the header being row 1, and nothing is stored.`,
      upload: { field: 'file', description: 'The file, 5 MB at most.' },
      violationMembers: csvMembers,
      reply: json('CsvReply', csvMembers, 'What was stored.'),
      errors: [...MISSING, 'PORTFOLIO_ITEM_LIMIT_REACHED'],
    },
    {
      ...{ ...get('exportPortfolio', '/portfolio/:id/export', GROUP), ...OWN },
      summary: 'Download the ledger or the holdings as CSV',
      description:
        'The file imports back to the same portfolio. A cell that a spreadsheet would compute is led by an apostrophe, which an import takes away.',
      query: exportQuery,
      reply: {
        ...{ status: 200, type: 'text/csv', name: 'PortfolioFile', schema: portfolioFile },
        description: 'RFC 4180, UTF-8.',
        headers: { 'Content-Disposition': 'A name for the file.' },
        example: portfolioFile.meta()?.example,
      },
      errors: MISSING,
    },
  ]
}
