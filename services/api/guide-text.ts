/**
 * A guide as HTML, made of its Markdown.
 *
 * Links between guides name their files, as they stand in the repository. What names an operation or an error code between backticks is
 * linked, and one that does not exist is an error at the start. `<!-- name -->` is where a part that is made of data stands.
 */
import { createRequire } from 'node:module'
import { Marked, Renderer, type RendererObject, type Tokens } from 'marked'
import { ERROR_STATUS } from '#schemas/api/error.ts'
import { type Operation, referenceAnchor } from '#schemas/api/operation.ts'
import { escaped } from './site.ts'

export interface Guide {
  /** Last part of its path. */
  name: string
  title: string
  /** Its first paragraph. */
  lead: string
  html: string
  /** Its headings of the second and third level. */
  contents: readonly GuideHeading[]
}

interface GuideHeading {
  depth: number
  id: string
  text: string
}

interface GuideSources {
  operations: readonly Operation[]
  /** From the page to the folder of the guides. */
  folder: string
  /** Markdown by the name of its place. */
  parts: Readonly<Record<string, string>>
  /** A drawing's SVG by its file. */
  drawing(file: string): string
}

/** Of highlight.js. An import would bring its types, and with them those of a browser into every file. */
const highlighter: {
  getLanguage(name: string): unknown
  highlight(code: string, options: { language: string }): { value: string }
} = createRequire(import.meta.url)('highlight.js/lib/common')

const OUTPUTS = new Set(['json', 'text'])

/** Code as HTML, with the names of its parts as classes. */
const highlighted = (code: string, language: string): string =>
  highlighter.getLanguage(language) ? highlighter.highlight(code, { language }).value : escaped(code)

/** Makes a guide of its Markdown; throws an Error that names what does not exist. */
export function renderGuide(name: string, markdown: string, sources: GuideSources): Guide {
  const contents: GuideHeading[] = []
  const marked = new Marked({ renderer: rendererOf(name, sources, contents) })
  const whole = markdown.replaceAll(/^<!-- (\w+) -->$/gm, (_, part: string) => {
    const text = sources.parts[part]
    if (text === undefined) throw new Error(`${name}.md: there is no part ${part}`)
    return text
  })
  const [title, lead, ...rest] = marked.lexer(whole).filter(({ type }) => type !== 'space')
  if (title?.type !== 'heading' || lead?.type !== 'paragraph')
    throw new Error(`${name}.md: no title and first paragraph`)
  return { name, title: title.text, lead: lead.text.replaceAll('\n', ' '), html: marked.parser(rest), contents }
}

function rendererOf(name: string, { operations, folder, drawing }: GuideSources, contents: GuideHeading[]) {
  const anchors = new Map(operations.map(one => [formOf(one.method, one.path), referenceAnchor(one)]))
  const linked = (href: string, html: string): string => `<a href="${escaped(href)}">${html}</a>`
  const renderer: RendererObject = {
    heading({ tokens, depth, text }) {
      const id = slugOf(text)
      if (contents.some(one => one.id === id)) throw new Error(`${name}.md: two headings are ${text}`)
      contents.push({ depth, id, text: text.replaceAll('`', '') })
      const html = this.parser.parseInline(tokens)
      return `<h${depth} id="${id}">${html} <a class="anchor" href="#${id}" aria-label="Link to ${escaped(text)}">#</a></h${depth}>\n`
    },
    link({ href, tokens }) {
      const html = this.parser.parseInline(tokens)
      return linked(/^(#|https?:)/.test(href) ? href : folder + href.replace(/\.md(?=#|$)/, ''), html)
    },
    codespan({ text }) {
      const html = `<code>${escaped(text)}</code>`
      if (Object.hasOwn(ERROR_STATUS, text)) return linked(`${folder}errors#${text}`, html)
      const [, method, path] = /^(GET|POST|PATCH|DELETE) (\/[^?\s]*)$/.exec(text) ?? []
      if (method === undefined || path === undefined) return html
      const anchor = anchors.get(formOf(method, path))
      if (anchor === undefined) throw new Error(`${name}.md: there is no operation ${text}`)
      return linked(`${folder}reference#${anchor}`, html)
    },
    code({ text, lang = '' }) {
      const [word = '', label] = lang.split(' ')
      const block = `<pre tabindex="0"><code>${highlighted(text, word)}</code></pre>`
      // What a program prints is not copied.
      return label === undefined && OUTPUTS.has(word) ? `${block}\n` : `<div class="code">${block}</div>\n`
    },
    table(token: Tokens.Table) {
      const html = Renderer.prototype.table.call(this, token)
      return `<div class="wide" tabindex="0" role="region" aria-label="Table">${html}</div>\n`
    },
    image: ({ href, text }) =>
      `<span class="drawing" tabindex="0" role="img" aria-label="${escaped(text)}">${drawing(href)}</span>`,
  }
  return renderer
}

/** A method and a path whose parameters are written in any way. */
const formOf = (method: string, path: string): string =>
  `${method.toUpperCase()} ${path.replace(/^\/v1\//, '/').replaceAll(/:\w+|\{\w+\}/g, ':')}`

const slugOf = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/[^a-z0-9 -]/g, '')
    .trim()
    .replaceAll(/ +/g, '-')
