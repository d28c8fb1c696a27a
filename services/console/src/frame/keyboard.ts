/** Shortcuts: `/` and `?` alone, and `g` before a letter that names a page. Pure; what has focus decides whether keys are text. */

export const PAGES_BY_LETTER = {
  b: 'board',
  m: 'movers',
  x: 'indexes',
  a: 'arbitrage',
  p: 'providers',
  i: 'item',
} as const

export type Shortcut = 'search' | 'help' | (typeof PAGES_BY_LETTER)[keyof typeof PAGES_BY_LETTER]

export interface KeyPress {
  key: string
  /** Focus is in a field, or a modifier is held: the key is none of ours. */
  isText: boolean
}

export interface KeyState {
  /** `g` was pressed; the next key names a page. */
  isGoing: boolean
  shortcut?: Shortcut
}

export function step({ isGoing }: KeyState, { key, isText }: KeyPress): KeyState {
  if (isText) return { isGoing: false }
  if (isGoing && Object.hasOwn(PAGES_BY_LETTER, key))
    return { isGoing: false, shortcut: PAGES_BY_LETTER[key as keyof typeof PAGES_BY_LETTER] }
  if (key === 'g') return { isGoing: true }
  if (key === '/') return { isGoing: false, shortcut: 'search' }
  if (key === '?') return { isGoing: false, shortcut: 'help' }
  return { isGoing: false }
}
