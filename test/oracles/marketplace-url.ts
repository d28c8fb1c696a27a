/** By RFC 6570, simple and query expressions, byte by byte; knows nothing of the platform's own expansion. */
import type { CatalogItem } from '#schemas/values/catalog-item.ts'

/** Expands a provider's template; a member that is null leaves its part out. */
export function modelUrl(template: string, item: Pick<CatalogItem, 'item_id' | 'market_hash_name' | 'phase'>): string {
  const values: Record<string, string | number | null> = { ...item }
  return template.replaceAll(/\{(\??)([^}]+)\}/g, (_, operator: string, names: string) => {
    const isQuery = operator === '?'
    const pairs = names.split(',').flatMap(name => {
      const value = values[name]
      return value === null || value === undefined ? [] : [`${isQuery ? `${name}=` : ''}${percentEncoded(`${value}`)}`]
    })
    return pairs.length === 0 ? '' : operator + pairs.join(isQuery ? '&' : ',')
  })
}

/** Every byte of the UTF-8 text that is no letter, digit, hyphen, point, underscore or tilde, as two hex digits. */
const percentEncoded = (text: string): string =>
  [...Buffer.from(text)]
    .map(byte => {
      const character = String.fromCharCode(byte)
      return byte < 128 && /[\w.~-]/.test(character)
        ? character
        : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
    })
    .join('')
