import { createChatCompletion } from './create-chat-completion.ts'

export const chatCompletions = [createChatCompletion]
