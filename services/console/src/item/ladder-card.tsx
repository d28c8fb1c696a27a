import { Age } from '../design/moment.tsx'
import { Empty, Loading, Problem } from '../design/states.tsx'
import { useCurrency } from '../session/currency.tsx'
import { ForTier, useTier } from '../session/for-tier.tsx'
import { useProviderName } from '../session/market-context.tsx'
import { formatCount } from '../values/amounts.ts'
import { permits } from '../values/tiers.ts'
import { type ItemAsks, type ItemQuote, useBids } from './quotes.ts'

/** Asks above bids, the best of each beside the other. */
export function LadderCard({ itemId, asks }: { itemId: number; asks: ItemAsks }) {
  return (
    <section className="card" aria-labelledby="ladder">
      <header>
        <h2 id="ladder">Asks and bids</h2>
      </header>
      {asks.error ? (
        <Problem error={asks.error} retry={asks.retry} />
      ) : asks.quotes === undefined ? (
        <Loading of="asks" />
      ) : asks.quotes.length === 0 ? (
        <Empty>No marketplace lists it now.</Empty>
      ) : (
        <Quotes side="Asks" quotes={asks.quotes} />
      )}
      <ForTier operation="listBids" of="bids">
        <Bids itemId={itemId} />
      </ForTier>
    </section>
  )
}

function Bids({ itemId }: { itemId: number }) {
  const tier = useTier()
  const { data, error, refetch } = useBids(itemId, tier !== null && permits(tier, 'listBids'))
  if (error) return <Problem error={error} retry={() => void refetch()} />
  if (!data) return <Loading of="bids" />
  return data.length === 0 ? <p className="quiet">No marketplace has a bid.</p> : <Quotes side="Bids" quotes={data} />
}

function Quotes({ side, quotes }: { side: 'Asks' | 'Bids'; quotes: readonly ItemQuote[] }) {
  const nameOf = useProviderName()
  const currency = useCurrency()
  const most = Math.max(...quotes.map(({ quantity }) => quantity))
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keys
    <section className={`sheet ladder ${side.toLowerCase()}`} aria-label={side} tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">{side === 'Asks' ? 'Asked at' : 'Bid at'}</th>
            <th scope="col" className="number">
              {side === 'Asks' ? 'Ask' : 'Bid'}
            </th>
            <th scope="col" className="number">
              Units
            </th>
            <th scope="col" className="number">
              Changed
            </th>
          </tr>
        </thead>
        <tbody>
          {quotes.map(({ provider, price, quantity, changedAt, link }) => (
            <tr key={provider}>
              <th scope="row">
                {link === undefined ? (
                  nameOf(provider)
                ) : (
                  <a href={link} target="_blank" rel="noreferrer">
                    {nameOf(provider)} <span aria-hidden="true">↗</span>
                  </a>
                )}
              </th>
              <td className="number price">{currency.own(price)}</td>
              <td className="number depth">
                <meter aria-hidden="true" max={most} value={quantity} />
                {formatCount(quantity)}
              </td>
              <td className="number quiet">
                <Age at={changedAt} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}
