/** The currency that amounts are shown in: a part of the address, so that a link shows what its sender saw. */
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { formatAmount } from '../values/amounts.ts'
import { useMarket } from './market-context.tsx'

const RATES_FOR_MS = 600_000

export interface Currency {
  code: string
  /** Of a dollar; undefined until it is known. */
  rate: number | undefined
  /** An amount in hundredths of a dollar, by the current rate; a dash until that is known. */
  ofDollars(hundredths: number): string
  /** An amount in hundredths of the currency itself. */
  own(hundredths: number): string
}

export function useCurrency(): Currency {
  const { currency: code = 'USD' } = useSearch({ strict: false })
  const { data } = useRates(code !== 'USD')
  const rate = code === 'USD' ? 1 : data?.rates[code]
  return useMemo(
    () => ({
      code,
      rate,
      ofDollars: hundredths => (rate === undefined ? '–' : formatAmount(Math.round(hundredths * rate), code)),
      own: hundredths => formatAmount(hundredths, code),
    }),
    [code, rate],
  )
}

const useRates = (isNeeded: boolean) => {
  const market = useMarket()
  return useQuery({
    queryKey: ['fx'],
    queryFn: ({ signal }) => market.client().listFxRates({}, { signal }),
    staleTime: RATES_FOR_MS,
    enabled: isNeeded,
  })
}

/** Rates cost a request, so they are asked for once somebody chooses. */
export function CurrencyChoice() {
  const { code } = useCurrency()
  const [isChoosing, setChoosing] = useState(false)
  const { data } = useRates(isChoosing || code !== 'USD')
  const navigate = useNavigate()
  const codes = [...new Set(['USD', code, ...Object.keys(data?.rates ?? {})])].toSorted()
  return (
    <label>
      <span className="unseen">Currency</span>
      <select
        value={code}
        onFocus={() => setChoosing(true)}
        onPointerEnter={() => setChoosing(true)}
        onChange={({ target }) =>
          void navigate({
            to: '.',
            search: before => ({ ...before, currency: target.value === 'USD' ? undefined : target.value }),
          })
        }
      >
        {codes.map(one => (
          <option key={one}>{one}</option>
        ))}
      </select>
    </label>
  )
}
