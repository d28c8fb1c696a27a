import { memo, useRef } from 'react'
import { ItemLink } from '../design/item-link.tsx'
import type { BoardRow } from '../market/board-store.ts'
import type { Currency } from '../session/currency.tsx'
import { formatCount, formatPercent } from '../values/amounts.ts'

const DASH = '–'

interface BoardLineProps {
  row: BoardRow
  index: number
  currency: Currency
  nameOf(provider: string): string
}

/** A row arrives anew with every window; it renders when a value in it is another. */
export const BoardLine = memo(
  function BoardLine({ row, index, currency, nameOf }: BoardLineProps) {
    // A change before the row came into view does not flash.
    const firstTicks = useRef(row.ticks)
    const flash = row.ticks === firstTicks.current ? '' : `flash ${row.rose ? 'rose' : 'fell'}`
    const { id, name, phase, ask, askProvider, bid, change, volume, liquidity, providers } = row
    return (
      <tr aria-rowindex={index + 2}>
        <th scope="row">
          <ItemLink id={id} name={name} phase={phase} />
        </th>
        <td className="number" title={askProvider === null ? undefined : nameOf(askProvider)}>
          <span key={row.ticks} className={flash}>
            {ask === null ? DASH : currency.ofDollars(ask)}
          </span>
        </td>
        <td className="number optional">{bid === null ? DASH : currency.ofDollars(bid)}</td>
        <td className={`number ${change === null || change === 0 ? '' : change > 0 ? 'rise' : 'fall'}`}>
          {change === null ? DASH : formatPercent(change)}
        </td>
        <td className="number optional">{volume === null ? DASH : formatCount(volume)}</td>
        <td className="number optional">{liquidity === null ? DASH : liquidity.toFixed(1)}</td>
        <td className="number optional">{providers || DASH}</td>
      </tr>
    )
  },
  (before, after) =>
    before.index === after.index &&
    before.currency === after.currency &&
    before.nameOf === after.nameOf &&
    (Object.keys(after.row) as (keyof BoardRow)[]).every(name => before.row[name] === after.row[name]),
)
