import type { Command } from 'commander'
import { amount, filled, wholeNumber } from '../arguments.ts'
import { asAccount } from '../as-account.ts'
import { ChatSession } from '../chat/talk.ts'

interface ChatOptions {
  message?: string
  system?: string
  maxTokens?: number
  temperature?: number
}

/** Chats with a language model. */
export function chatCommand(chat: Command): void {
  chat
    .argument('<model>', 'name or id of an endpoint whose task is chat')
    .option('-m, --message <text>', 'send one message, print the answer and exit', filled)
    .option('--system <text>', 'the system prompt', filled)
    .option('--max-tokens <n>', 'maximum length of an answer', wholeNumber)
    .option('--temperature <t>', 'sampling temperature', amount)
    .addHelpText(
      'after',
      '\nEach line is a message; /reset starts over, /system TEXT sets the system prompt, /exit quits.',
    )
    .action(
      asAccount(async ({ baseUrl, key, json }, model: string, options: ChatOptions) => {
        const { message, system, maxTokens, temperature } = options
        const talk = new ChatSession(
          { baseUrl, key: key.text, model, maxTokens, temperature },
          { system, json },
        )
        await (message === undefined ? talk.run() : talk.ask(message))
      }),
    )
}
