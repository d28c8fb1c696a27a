/** Shown in the place of data that is missing, with what to do about it. */
import { MarketlogConnectionError, MarketlogError } from '#services/clients/typescript/src/marketlog.ts'
import { Moment } from './moment.tsx'

export const Loading = ({ of }: { of: string }) => (
  <p className="centred quiet" role="status">
    Loading {of} …
  </p>
)

export const Empty = ({ children }: { children: React.ReactNode }) => <div className="centred quiet">{children}</div>

/** Says what happened and when it may be tried again. */
export function Problem({ error, retry }: { error: unknown; retry?: () => void }) {
  return (
    <div className="notice problem" role="alert">
      <p>{sentenceOf(error)}</p>
      {error instanceof MarketlogError && error.status === 429 && error.retryAfterSeconds !== undefined && (
        <p>
          It can be asked again at <Moment at={Date.now() + error.retryAfterSeconds * 1_000} />.
        </p>
      )}
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  )
}

function sentenceOf(error: unknown): string {
  if (typeof error === 'string') return error
  if (error instanceof MarketlogConnectionError) return 'The platform does not answer. It is asked again when you try.'
  if (!(error instanceof MarketlogError)) return 'Something failed in this page.'
  return typeof error.detail === 'string' ? error.detail : error.message
}
