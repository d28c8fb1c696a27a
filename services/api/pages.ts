/** The pages behind links in mails. They load nothing, and what they do is done by the POST of a button: mail scanners follow links. */
import type { Response } from 'express'
import { beginAnswer, localsOf, SENT, type Sent } from '#infra/http/reply.ts'

/** A button that posts to the path of its page. Neither text may hold what HTML takes for markup. */
export const postButton = (query: string, label: string): string =>
  `<form method="post" action="?${query}"><button type="submit">${label}</button></form>`

/** Sends a page. */
export function sendPage(response: Response, title: string, content: string): Sent {
  const head = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${title}</title></head>`
  const page = Buffer.from(`${head}<body><h1>${title}</h1>${content}</body></html>`)
  const { length: bytes } = page
  const headers = ['Content-Type', 'text/html; charset=utf-8', 'Content-Length', String(bytes)]
  beginAnswer(response, 200, headers)
  response.end(page)
  localsOf(response).observe(response, { status: 200, bytes })
  return SENT
}
