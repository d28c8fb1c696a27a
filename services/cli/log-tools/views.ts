/**
 * The views that can be rebuilt and verified, by the names that the commands take.
 *
 * Loads a view's code on request.
 */
import type { TableView } from '#streams/runner/table-view.ts'
import { CommandFailure, exitCodes } from '../command-failure.ts'

/** Views that are stored, in Redis or ClickHouse. */
export const STORED_VIEWS = ['live-view', 'candles', 'history', 'sales'] as const

/** Names of views. */
export const VIEW_NAMES = [...STORED_VIEWS, 'alerts'] as const

/** Name of a view. */
export type ViewName = (typeof VIEW_NAMES)[number]

/** Asks and bids are in one table of Redis, partition by partition, and are rebuilt together. */
const OTHER_NAMES: Record<string, ViewName> = { 'live-asks': 'live-view', 'live-bids': 'live-view' }

/** The view of a name. */
export function viewOf(text: string): ViewName {
  const name = VIEW_NAMES.find(one => one === text) ?? OTHER_NAMES[text]
  if (name !== undefined) return name
  const names = [...VIEW_NAMES, ...Object.keys(OTHER_NAMES)].join(', ')
  throw new CommandFailure(`no view is called ${text}. There are ${names}`, exitCodes.usage)
}

/** Names of views in ClickHouse. */
export type TableViewName = Exclude<ViewName, 'live-view' | 'alerts'>

/** A view in ClickHouse. */
export async function tableViewOf(name: TableViewName): Promise<TableView> {
  if (name === 'candles') return (await import('#streams/candles/main.ts')).view
  if (name === 'history') return (await import('#streams/history/main.ts')).view
  return (await import('#streams/sales/main.ts')).view
}
