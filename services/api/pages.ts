/** The pages behind links in mails. They load nothing, and what they do is done by the POST of a button: mail scanners follow links. */
import type { Response } from 'express'
import { bytes, type Sent } from '#infra/http/reply.ts'

/** A button that posts to the path of its page. Neither text may hold what HTML takes for markup. */
export const postButton = (query: string, label: string): string =>
  `<form method="post" action="?${query}"><button type="submit">${label}</button></form>`

/** Sends a page. */
export function sendPage(response: Response, title: string, content: string): Sent {
  const head = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${title}</title></head>`
  const page = `${head}<body><h1>${title}</h1>${content}</body></html>`
  return bytes(response, page, { type: 'text/html; charset=utf-8' })
}
