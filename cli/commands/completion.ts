import { Argument, type Command } from 'commander'
import { bashCompletion } from '../completion/bash.ts'
import { fishCompletion } from '../completion/fish.ts'
import { commandsOf } from '../completion/tree.ts'
import { zshCompletion } from '../completion/zsh.ts'

const SHELLS = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion }

/** Prints the completion script of a shell, without contacting a platform. */
export function completionCommand(completion: Command, whole: () => Promise<Command>): void {
  completion
    .addArgument(new Argument('<shell>').choices(Object.keys(SHELLS)))
    .addHelpText(
      'after',
      `
It completes the word hearth, so make that a command first, in the folder of this checkout:
  $ alias hearth="node $PWD/scripts/hearth.mjs"
bash and zsh:
  $ source <(hearth completion bash)
fish:
  $ hearth completion fish | source`,
    )
    .action(async (shell: keyof typeof SHELLS) => {
      process.stdout.write(SHELLS[shell](commandsOf(await whole())))
    })
}
