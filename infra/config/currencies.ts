import { z } from 'zod'
import { readJsonFile } from './json-file.ts'

const codes = z
  .array(z.string().regex(/^[A-Z0-9]{2,10}$/, 'expected a currency code in capitals'))
  .refine(list => list.includes('USD'), 'USD is missing')
  .refine(list => list.every((code, i) => i === 0 || (list[i - 1] ?? '') < code), 'codes are not sorted or not unique')

export const loadCurrencies = (): string[] => readJsonFile(new URL('./currencies.json', import.meta.url), codes)
