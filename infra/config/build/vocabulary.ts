/** Words that the game puts on a source's numbers: rarity names by colour, finish techniques. */

type Scale = Readonly<Record<string, string>>

const PAINTED: Scale = {
  '#b0c3d9': 'Consumer Grade',
  '#5e98d9': 'Industrial Grade',
  '#4b69ff': 'Mil-Spec Grade',
  '#8847ff': 'Restricted',
  '#d32ce6': 'Classified',
  '#eb4b4b': 'Covert',
  '#e4ae39': 'Contraband',
}

const AGENTS: Scale = {
  '#4b69ff': 'Distinguished',
  '#8847ff': 'Exceptional',
  '#d32ce6': 'Superior',
  '#eb4b4b': 'Master',
}

const ITEMS: Scale = {
  '#ded6cc': 'Base Grade',
  '#b0c3d9': 'Base Grade',
  '#5e98d9': 'Medium Grade',
  '#4b69ff': 'High Grade',
  '#8847ff': 'Remarkable',
  '#d32ce6': 'Exotic',
  '#eb4b4b': 'Extraordinary',
  '#e4ae39': 'Contraband',
}

export function rarityName(kind: string, color: string | null): string | null {
  if (color === null) return null
  const scale = kind === 'weapon' || kind === 'melee' ? PAINTED : kind === 'agent' ? AGENTS : ITEMS
  return scale[color] ?? null
}

const TECHNIQUES: readonly [RegExp, string][] = [
  [/candy coat/i, 'Anodized Multicolored'],
  [/airbrushing transparent paints/i, 'Anodized Airbrushed'],
  [/custom[- ]painted|hand[- ]painted/i, 'Custom Paint Job'],
  [/hydrograph|hydro-dipped/i, 'Hydrographic'],
  [/spray[- ]?paint/i, 'Spray-Paint'],
  [/anodized/i, 'Anodized'],
  [/patina|case-hardened/i, 'Patina'],
  [/solid colors?\b/i, 'Solid Color'],
]

/** The technique that the first line of a finish's description names. */
export function paintTechnique(description: string): string | null {
  const line = description.split('\n', 1)[0] ?? ''
  return TECHNIQUES.find(([words]) => words.test(line))?.[1] ?? null
}
