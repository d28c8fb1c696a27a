/**
 * Completion on the command line: what is offered after some words, and a Tab in a real bash.
 *
 * Starts processes of the command line, on no server.
 */
import { spawn } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { Argument, Command, Option } from 'commander'
import { completionsOf } from '#services/cli/completion.ts'
import { runCommand } from '#test/harness/run-command.ts'

const MAIN = fileURLToPath(new URL('../../services/cli/main.ts', import.meta.url))

function sample(): Command {
  const program = new Command('sample').option('-V, --version', 'show it')
  program
    .command('run')
    .argument('[role...]')
    .option('--port <port>', 'a port')
    .addOption(new Option('--secret').hideHelp())
  program.command('down')
  program.command('hidden', { hidden: true })
  const keys = program.command('keys')
  keys.command('create').addOption(new Option('--tier <tier>', 'its tier').choices(['free', 'pro']))
  program
    .command('show')
    .argument('<topic>')
    .addArgument(new Argument('<form>').choices(['long', 'short']))
  return program
}

const known = { role: () => ['api', 'book'], topic: () => ['market.book', 'market.fx'], '--port': () => ['8080'] }

/** What a bash on a terminal shows when these keys are typed; `marketlog` is the command line of this checkout. */
async function typedInBash(keys: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'marketlog-completion-'))
  try {
    writeFileSync(join(folder, 'marketlog'), `#!/bin/sh\nexec '${process.execPath}' '${MAIN}' "$@"\n`)
    chmodSync(join(folder, 'marketlog'), 0o755)
    writeFileSync(join(folder, 'rc'), 'source <(marketlog completion bash)\n')
    const env = { PATH: `${folder}:${process.env.PATH}`, TERM: 'dumb', HOME: folder }
    const shell = `bash --noprofile --rcfile ${join(folder, 'rc')} -i`
    const child = spawn('script', ['-qefc', shell, '/dev/null'], { env, stdio: ['pipe', 'pipe', 'inherit'] })
    let shown = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      shown += text
    })
    child.stdin.end(`${keys}\nexit\n`)
    await new Promise(resolve => child.once('close', resolve))
    return shown
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

describe('completion of a command line', () => {
  const cases: [about: string, words: string[], expected: string[]][] = [
    ['offers commands but the hidden ones', [''], ['run', 'down', 'keys', 'show', 'help']],
    ['offers what begins as the word', ['d'], ['down']],
    ['offers the commands of a command', ['keys', 'c'], ['create']],
    ['offers options but the hidden ones', ['run', '--'], ['--port', '--help']],
    ['offers the values of an argument, again for one that repeats', ['run', 'api', ''], ['api', 'book']],
    ['offers the choices of a second argument', ['show', 'market.fx', ''], ['long', 'short']],
    ['offers nothing after the last argument', ['show', 'market.fx', 'long', ''], []],
    ['offers the choices of an option', ['keys', 'create', '--tier', 'p'], ['pro']],
    ['offers the known values of an option', ['run', '--port', ''], ['8080']],
    ['passes over an option with its value', ['run', '--port', '8080', 'b'], ['book']],
    ['does not take the name of a command for one after an argument', ['show', 'run', 's'], ['short']],
  ]
  for (const [about, words, expected] of cases) {
    it(about, () => expect(completionsOf(sample(), words, known)).to.deep.equal(expected))
  }

  it('knows the roles, views, topics, providers and tiers of the platform', async () => {
    const answers = async (...words: string[]): Promise<string[]> => {
      const { code, stdout } = await runCommand(['complete', '--', 'marketlog', ...words], {})
      expect(code).to.equal(0)
      return stdout.split('\n').filter(Boolean)
    }
    expect(await answers('run', 'live')).to.deep.equal(['live-view'])
    expect(await answers('verify', '')).to.deep.equal([
      ...['fx', 'provider-health', 'movers', 'live-view'],
      ...['candles', 'history', 'sales', 'alerts'],
    ])
    expect(await answers('tail', 'market.book-')).to.deep.equal(['market.book-changes'])
    expect(await answers('ingest', 'recorded', '--provider', 'provider_4')).to.deep.equal([
      'provider_40',
      'provider_41',
    ])
    expect(await answers('keys', 'create', '--tier', '')).to.deep.equal(['free', 'starter', 'pro', 'quant'])
    expect(await answers(''))
      .to.include('tail')
      .and.not.include('complete')
  })

  it('completes in a bash on a terminal when Tab is pressed', async () => {
    const shown = await typedInBash('marketlog compl\tba\t')
    expect(shown).to.match(/marketlog completion bash/)
    expect(shown, 'the completed command ran').to.include('complete -o default -F _marketlog marketlog')
  })

  it('has a script for each shell, and refuses others with the names that there are', async () => {
    for (const shell of ['bash', 'zsh', 'fish']) {
      const { code, stdout } = await runCommand(['completion', shell], {})
      expect([code, stdout.includes('complete --')], shell).to.deep.equal([0, true])
    }
    const { code, stderr } = await runCommand(['completion', 'csh'], {})
    expect(code).to.equal(64)
    expect(stderr).to.match(/bash, zsh, fish/)
  })
})
