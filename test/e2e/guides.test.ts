/**
 * The code of the guides, run as a reader copies it, on a platform that was started as a reader starts it.
 *
 * The commands of a guide run one after the other in one shell. A label behind the language of a block says what it is: `until=WORD` goes on
 * for ever and has shown what it shows once it prints the word, `waiting=WORD` prints it after a while, `refused` is no success. What a block
 * prints has the members that the guide shows of it.
 */
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { EventSource } from 'eventsource'
import { runTool } from '#infra/stack/one-shot.ts'
import { guideNames, type Snippet, snippetsOf } from '#test/fixtures/guide-snippets.ts'
import { noteAbsence } from '#test/harness/absences.ts'
import { eventually } from '#test/harness/eventually.ts'
import { runUntilPrinted } from '#test/harness/run-command.ts'
import { type OwnPlatform, prepareOwnPlatform } from './own-platform.ts'

const LIMIT_MS = 600_000
const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url))
const MAIN = fileURLToPath(new URL('../../services/cli/main.ts', import.meta.url))
const EXAMPLE_ROOT = 'https://marketlog.example'
const PROGRAMS: Record<string, { command: string; args: string[]; file: string; isPresent: string[] }> = {
  ts: { command: process.execPath, args: [], file: 'snippet.mts', isPresent: [process.execPath, '--version'] },
  python: { command: 'python', args: [], file: 'snippet.py', isPresent: ['python3', '-c', 'import ensurepip, venv'] },
  go: { command: 'go', args: ['run'], file: 'snippet.go', isPresent: ['go', 'version'] },
}
/** A command that is refused fails, and the command line is that of this checkout. */
const PRELUDE = `set -euo pipefail
curl() { command curl --fail-with-body "$@"; }
npx() { shift; "${process.execPath}" "${MAIN}" "$@"; }
`

/** Calls the function of each language with the vectors, and prints what it finds. */
const VERIFIERS: Record<string, string> = {
  ts: `import { readFileSync } from 'node:fs'
console.log(JSON.stringify(JSON.parse(readFileSync('vectors.json', 'utf8')).map(one => isGenuine(one.secret, one, one.now))))`,
  python: `import json
with open("vectors.json", encoding="utf-8") as file:
    print(json.dumps([is_genuine(v["secret"], v["timestamp"], v["signature"], v["body"].encode(), v["now"]) for v in json.load(file)]))`,
  go: `func main() {
	type vector struct { Secret, Timestamp, Signature, Body string; Now int64 }
	var vectors []vector
	text, _ := os.ReadFile("vectors.json")
	if err := json.Unmarshal(text, &vectors); err != nil { panic(err) }
	found := []bool{}
	for _, v := range vectors { found = append(found, isGenuine(v.Secret, v.Timestamp, v.Signature, []byte(v.Body), time.Unix(v.Now, 0))) }
	printed, _ := json.Marshal(found)
	os.Stdout.Write(printed)
}`,
}

/** Without the person's own settings: bash reads them where its standard input is a socket, as it is here. */
const shell = (code: string): string[] => ['--norc', '-c', code]
const ofLabel = (guide: string, label: string): Snippet[] => snippetsOf(guide).filter(one => one.label === label)
const wordOf = (label: string, kind: string): string | undefined =>
  label.startsWith(`${kind}=`) ? label.slice(kind.length + 1) : undefined

describe('the code of the guides', function () {
  this.timeout(LIMIT_MS)
  const folder = mkdtempSync(join(tmpdir(), 'marketlog-guides-'))
  let own: OwnPlatform
  let environment: NodeJS.ProcessEnv

  before('a platform, and the packages', async () => {
    own = await prepareOwnPlatform('demo')
    const { code, stderr } = await own.up()
    expect(code, stderr).to.equal(0)
    const { base_url, keys } = own.platform()
    const { HOME, LANG, GOPATH, GOCACHE, GOPROXY, MARKETLOG_CACHE } = process.env
    environment = {
      HOME,
      LANG,
      GOPATH,
      GOCACHE,
      GOPROXY,
      MARKETLOG_CACHE,
      MARKETLOG_RUN_DIR: own.runDir,
      API: `${base_url}/v1`,
      KEY: keys.quant,
      PATH: [join(folder, 'python/bin'), process.env.PATH].join(delimiter),
    }
    // Prices are live by now; what is computed of the whole market follows.
    const computed = { items: {}, arbitrage: {}, movers: { window: '1h' }, indexes: { group_by: 'weapon_type' } }
    for (const [view, query] of Object.entries(computed)) {
      const path = `/market/${view}`
      await eventually(async () => (await own.get(path, query)).status === 200, path, LIMIT_MS)
    }
    symlinkSync(REPOSITORY, join(folder, 'marketlog'))
    const hasPython = await isPresent('python')
    if (hasPython) await run('python3', ['-m', 'venv', join(folder, 'python')])
    for (const { code } of ofLabel('packages', 'install'))
      if (hasPython || !code.startsWith('python')) await run('bash', shell(`set -euo pipefail\n${code}`))
  })
  after('end of the platform', async () => {
    await own?.remove()
    rmSync(folder, { recursive: true, force: true })
  })

  const here = (code: string): string => code.replaceAll(EXAMPLE_ROOT, own.platform().base_url)
  const run = (command: string, args: string[]): Promise<string> =>
    runTool({ command, args, directory: folder, environment, limitMs: LIMIT_MS, signal: AbortSignal.timeout(LIMIT_MS) })
  const isPresent = async (language: string): Promise<boolean> => {
    const [command = '', ...args] = PROGRAMS[language]?.isPresent ?? []
    return run(command, args).then(
      () => true,
      () => noteAbsence(command, 'code of guides is not run') ?? false,
    )
  }

  /** Runs what goes on for ever until it has printed a word. */
  const runUntil = (word: string, ...command: string[]): Promise<void> =>
    runUntilPrinted(output => output.includes(word), command, { cwd: folder, env: environment })

  /** A command that prints a word after a while, again until it does. */
  const awaited = (word: string, code: string): string => `for attempt in $(seq 300); do
  printed=$(${code})
  if [[ $printed == *${word}* ]]; then break; fi
  sleep 0.2
done
echo "$printed"
[[ $printed == *${word}* ]]
`

  const membersOf = (text: string): string[] => [...text.matchAll(/"(\w+)":/g)].map(([, name = '']) => name)

  for (const guide of guideNames()) {
    const snippets = snippetsOf(guide)
    const commands = snippets.filter(
      ({ language, label }) => language === 'sh' && label !== 'settings' && label !== 'install',
    )
    const once = commands.filter(({ label }) => wordOf(label, 'until') === undefined)

    if (once.length > 0)
      it(`${guide}: each command is answered as it shows`, async () => {
        const script = once.map(({ label, code }) => {
          const word = wordOf(label, 'waiting')
          if (label === 'refused') return `if\n${code}\nthen exit 1; fi\n`
          return word === undefined ? code : awaited(word, code)
        })
        const output = await run('bash', shell(PRELUDE + here(script.join('\n'))))
        const replies = snippets.filter(({ language, label }) => language === 'json' && label === '')
        for (const { code } of replies) expect(membersOf(output), code).to.include.members(membersOf(code))
      })

    for (const { label, code } of commands) {
      const word = wordOf(label, 'until')
      if (word === undefined) continue
      it(`${guide}: a stream sends ${word}`, () => runUntil(word, 'bash', ...shell(PRELUDE + here(code))))
    }

    for (const { language, label, code } of snippets) {
      const program = PROGRAMS[language]
      if (!program) continue
      const { command, args, file } = program
      it(`${guide}: ${language} ${label}`, async () => {
        if (!(await isPresent(language))) return
        const whole = [...args, file]
        if (label !== 'verifier') {
          writeFileSync(join(folder, file), here(code))
          const word = wordOf(label, 'until')
          if (word !== undefined) return runUntil(word, command, ...whole)
          expect(await run(command, whole)).to.match(/\S/)
          return
        }
        const [vectors] = ofLabel(guide, 'vectors')
        const imports = language === 'go' ? code.replace('import (', 'import (\n"encoding/json"\n"os"') : code
        writeFileSync(join(folder, file), `${imports}\n${VERIFIERS[language]}\n`)
        writeFileSync(join(folder, 'vectors.json'), vectors?.code ?? '')
        const expected = JSON.parse(vectors?.code ?? '').map((one: { is_genuine: boolean }) => one.is_genuine)
        expect(new Set(expected).size).to.equal(2)
        expect(JSON.parse(await run(command, whole))).to.deep.equal(expected)
      })
    }
  }

  it('quick-start: the function of a Google sheet gives rows', async () => {
    const [script] = ofLabel('quick-start', 'apps-script')
    writeFileSync(
      join(folder, 'sheet.cjs'),
      `${SHEET}\n${here(script?.code ?? '')}\nconsole.log(JSON.stringify(PRICES(NAME)))`,
    )
    const rows = JSON.parse(await run(process.execPath, ['sheet.cjs'])) as unknown[][]
    expect(rows).to.have.length.above(5)
    for (const row of rows) expect(row.map(cell => typeof cell)).to.deep.equal(['string', 'number', 'number'])
  })

  it('quick-start: the query of a workbook asks for what is there', async () => {
    const [query] = ofLabel('quick-start', 'power-query')
    const textOf = (form: RegExp): string => form.exec(query?.code ?? '')?.[1] ?? ''
    const name = textOf(/market_hash_name = "([^"]+)"/)
    const { status, body } = await own.get(textOf(/RelativePath = "v1([^"]+)"/), { market_hash_name: name })
    const columns = textOf(/SelectColumns\(Rows, \{"(.+)"\}/).split('", "')
    expect([status, columns.length]).to.deep.equal([200, 3])
    for (const item of body.items) expect(item).to.include.keys(columns)
  })

  it('feeds: the lines of a page receive prices', async () => {
    const { API, KEY } = environment
    const answer = await fetch(`${API}/feed/token`, { method: 'POST', headers: { authorization: `Bearer ${KEY}` } })
    const { token } = (await answer.json()) as { token: string }
    const [snippet] = ofLabel('feeds', 'browser')
    const lines: unknown[][] = []
    const log = (...words: unknown[]) => lines.push(words)
    const open = new Function('token', 'EventSource', 'console', `${here(snippet?.code ?? '')}\nreturn source`)
    const source: EventSource = open(token, EventSource, { log })
    try {
      await eventually(() => lines.length > 0, 'a price')
      expect(lines[0]?.map(word => typeof word)).to.deep.equal(['string', 'string', 'number', 'string'])
    } finally {
      source.close()
    }
  })

  it('has no block that nothing runs', () => {
    const labels = [
      '',
      'refused',
      'settings',
      'install',
      'verifier',
      'vectors',
      'event',
      'receiver',
      'apps-script',
      'power-query',
      'browser',
    ]
    for (const guide of guideNames())
      for (const { language, label } of snippetsOf(guide)) {
        expect(['sh', 'json', 'text', 'js', ...Object.keys(PROGRAMS)], guide).to.include(language)
        if (!/^(until|waiting)=\w/.test(label)) expect(labels, guide).to.include(label)
        if (language === 'js') expect(label, guide).not.to.equal('')
      }
  })
})

/** Stands around the script of a sheet. */
const SHEET = `const { execFileSync } = require('node:child_process')
const NAME = 'AK-47 | Redline (Field-Tested)'
const PropertiesService = { getScriptProperties: () => ({ getProperty: name => process.env[name] }) }
const UrlFetchApp = {
  fetch(url, { headers }) {
    const text = execFileSync('curl', ['-s', '--fail', '-H', 'Authorization: ' + headers.Authorization, url], { encoding: 'utf8' })
    return { getContentText: () => text }
  },
}`
