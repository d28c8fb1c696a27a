import { useNavigate } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import { lastItem } from '../session/last-item.ts'
import { type KeyState, type Shortcut, step } from './keyboard.ts'

const LINES: readonly [string, string][] = [
  ['/', 'Search the board'],
  ['g b', 'Board'],
  ['g m', 'Movers'],
  ['g x', 'Indexes'],
  ['g a', 'Arbitrage'],
  ['g p', 'Providers'],
  ['g i', 'The item that was open last'],
  ['↑ ↓', 'Rows of the board; Enter opens one'],
  ['?', 'This list'],
]

const PAGES = {
  board: '/',
  movers: '/movers',
  indexes: '/indexes',
  arbitrage: '/arbitrage',
  providers: '/providers',
} as const

/** Listens to the keyboard, and shows the list of shortcuts when asked. */
export function Shortcuts() {
  const navigate = useNavigate()
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    let state: KeyState = { isGoing: false }
    const follow = async (shortcut: Shortcut): Promise<void> => {
      if (shortcut === 'help') dialog.current?.showModal()
      else if (shortcut === 'item') {
        const itemId = lastItem()
        if (itemId !== undefined) await navigate({ to: '/item/$itemId', params: { itemId } })
      } else if (shortcut === 'search') {
        if (!document.getElementById('search')) await navigate({ to: '/' })
        document.getElementById('search')?.focus()
      } else await navigate({ to: PAGES[shortcut] })
    }
    const onKey = (event: KeyboardEvent): void => {
      const { key, ctrlKey, metaKey, altKey, target } = event
      const isField = target instanceof Element && target.matches('input, select, textarea, dialog *')
      state = step(state, { key, isText: isField || ctrlKey || metaKey || altKey })
      if (state.shortcut === undefined) return
      event.preventDefault()
      void follow(state.shortcut)
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [navigate])
  return (
    <dialog ref={dialog} aria-labelledby="shortcuts">
      <h2 id="shortcuts">Keyboard</h2>
      <dl>
        {LINES.map(([keys, does]) => (
          <div key={keys} style={{ display: 'contents' }}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </dialog>
  )
}
