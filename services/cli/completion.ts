/**
 * Completion in a shell: what may follow the words of a command line, and the scripts that ask for it.
 *
 * Derived from the declared commands, so that it cannot drift from them. A script passes the whole line, the
 * program's name first, and offers what `marketlog complete` answers; where that is nothing, the shell offers file names.
 */
import { Argument, type Command, type Option } from 'commander'

/** Values of arguments and options, by `topic` as in `<topic>` or by `--provider`. */
type KnownValues = Readonly<Record<string, () => readonly string[]>>

const SHELLS = ['bash', 'zsh', 'fish'] as const

type Shell = (typeof SHELLS)[number]

const SCRIPTS: Readonly<Record<Shell, string>> = {
  bash: `_marketlog() {
  local IFS=$'\\n'
  COMPREPLY=($("\${COMP_WORDS[0]}" complete -- "\${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null))
}
complete -o default -F _marketlog marketlog
`,
  zsh: `_marketlog() {
  local -a found
  found=("\${(@f)$("\${words[1]}" complete -- "\${(@)words[1,CURRENT]}" 2>/dev/null)}")
  if [[ -n "\${found[1]}" ]]; then compadd -a found; else _files; fi
}
compdef _marketlog marketlog
`,
  fish: `complete -c marketlog -a '(marketlog complete -- (commandline -opc) (commandline -ct) 2>/dev/null)'
`,
}

/** Adds `completion`, which prints a script, and the hidden `complete`, which the scripts call. */
export function addCompletion(program: Command): void {
  program
    .command('completion')
    .addArgument(new Argument('<shell>', 'the shell that is to complete').choices(SHELLS))
    .description('a script by which a shell completes the command: source <(marketlog completion bash)')
    .action((shell: Shell) => void process.stdout.write(SCRIPTS[shell]))
  program
    .command('complete', { hidden: true })
    .argument('[words...]')
    .action(async ([, ...words]: string[]) => {
      for (const word of completionsOf(program, words, await loadValues())) process.stdout.write(`${word}\n`)
    })
}

async function loadValues(): Promise<KnownValues> {
  const { ROLE_NAMES } = await import('./roles.ts')
  const { COMMAND_VIEWS } = await import('./log-tools/views.ts')
  const { allTopics } = await import('#schemas/topics.ts')
  const { loadProviders } = await import('#infra/config/providers.ts')
  return {
    role: () => ROLE_NAMES,
    view: () => COMMAND_VIEWS.map(({ name }) => name),
    topic: () => allTopics.map(({ name }) => name),
    '--provider': () => loadProviders().all.map(({ key }) => key),
  }
}

/** The completions of the last word, which may be empty or begun. */
export function completionsOf(program: Command, words: readonly string[], known: KnownValues): string[] {
  const begun = words.at(-1) ?? ''
  const { command, position, option } = positionOf(program, words.slice(0, -1))
  return candidates(command, { position, option, begun }, known).filter(word => word.startsWith(begun))
}

interface Position {
  command: Command
  /** How many arguments come before. */
  position: number
  /** The option whose value comes next. */
  option: Option | undefined
}

function positionOf(program: Command, words: readonly string[]): Position {
  let command = program
  let position = 0
  let option: Option | undefined
  for (const word of words) {
    if (option !== undefined) option = undefined
    else if (word.startsWith('-')) {
      const named = command.options.find(({ short, long }) => word === short || word === long)
      if (named?.required || named?.optional) option = named
    } else {
      const next = position === 0 ? command.commands.find(each => each.name() === word) : undefined
      if (next === undefined) position += 1
      command = next ?? command
    }
  }
  return { command, position, option }
}

function candidates(
  command: Command,
  { position, option, begun }: Omit<Position, 'command'> & { begun: string },
  known: KnownValues,
): readonly string[] {
  if (option !== undefined) return option.argChoices ?? known[option.long ?? '']?.() ?? []
  const help = command.createHelp()
  if (begun.startsWith('-')) return help.visibleOptions(command).flatMap(({ long }) => long ?? [])
  if (command.commands.length > 0) return help.visibleCommands(command).map(each => each.name())
  const last = command.registeredArguments.at(-1)
  const argument = command.registeredArguments[position] ?? (last?.variadic ? last : undefined)
  return argument?.argChoices ?? known[argument?.name() ?? '']?.() ?? []
}
