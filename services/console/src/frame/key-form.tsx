import { useRef } from 'react'
import { useLink, useMarket } from '../session/market-context.tsx'

/** Asks for a key, and says why the one before was refused. */
export function KeyForm() {
  const market = useMarket()
  const field = useRef<HTMLInputElement>(null)
  const refusal = useLink(({ state }) => (state.status === 'refused' ? state.problem : null))
  const enter = (): void => {
    const key = field.current?.value.trim() ?? ''
    if (field.current) field.current.value = ''
    if (key !== '') market.enter(key)
  }
  return (
    <form
      className="card entry"
      autoComplete="off"
      onSubmit={event => {
        event.preventDefault()
        enter()
      }}
    >
      <h1>The market in your browser</h1>
      {refusal !== null && (
        <p className="notice problem" role="alert">
          The key was refused: {refusal}
        </p>
      )}
      <p>The console shows what your key may read, by the same interface that programs use.</p>
      <label htmlFor="key">Your key</label>
      <div className="field">
        <input
          id="key"
          ref={field}
          type="password"
          required
          pattern="\s*[!-~]+\s*"
          title="sk_live_…"
          autoComplete="off"
          spellCheck={false}
          autoCapitalize="none"
          aria-describedby="key-note"
        />
        <button type="submit" className="main">
          Show the market
        </button>
      </div>
      <p id="key-note" className="quiet">
        It is kept in this tab until you close it, and is sent to this host alone. <code>make demo</code> prints one for
        each tier; an operator makes one by <code>npx marketlog keys create --tier free</code>.
      </p>
    </form>
  )
}
