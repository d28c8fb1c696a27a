/**
 * What a check found, and how it is reported.
 *
 * Every finding names a file, the rule that it breaks and what to do about it, so that it can be corrected without reading
 * the check.
 */

/** One broken rule in one file. */
export interface Finding {
  /** Path from the root of the tree, with forward slashes. */
  file: string
  line?: number
  rule: string
  detail: string
}

/** One finding on one line, clickable where a line is known. */
export function describeFinding({ file, line, rule, detail }: Finding): string {
  return `${file}${line === undefined ? '' : `:${line}`}  ${rule}: ${detail}`
}
