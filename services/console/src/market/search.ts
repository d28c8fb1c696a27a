/** The text that a person types, as words that an item's text has to hold. */

export const WEARS = ['Factory New', 'Minimal Wear', 'Field-Tested', 'Well-Worn', 'Battle-Scarred'] as const

/** How traders write wears and phases. */
const SHORT_FORMS: Readonly<Record<string, string>> = {
  fn: '(factory new)',
  mw: '(minimal wear)',
  ft: '(field-tested)',
  ww: '(well-worn)',
  bs: '(battle-scarred)',
  st: 'stattrak',
  p1: 'phase 1',
  p2: 'phase 2',
  p3: 'phase 3',
  p4: 'phase 4',
}

/** Accents and the sign of a trade mark are not typed. */
export const searchable = (text: string): string =>
  text
    .normalize('NFKD')
    .replaceAll(/\p{M}|\u2122/gu, '')
    .replaceAll('TM', '')
    .toLowerCase()

/** Every word has to be found; short forms stand for what they mean. */
export const wordsOf = (text: string): string[] =>
  searchable(text)
    .split(/\s+/)
    .filter(word => word !== '')
    .map(word => SHORT_FORMS[word] ?? word)

export const wearOf = (name: string): string | undefined => WEARS.find(wear => name.endsWith(`(${wear})`))

export const isWear = (text: string): boolean => (WEARS as readonly string[]).includes(text)
