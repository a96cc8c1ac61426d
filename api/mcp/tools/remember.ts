import Type from 'typebox'
import { AddMemoryEntry } from '../../../schemas/memory.ts'
import { addMemoryEntry } from '../../routes/builder/memory/add-memory-entry.ts'
import { CREATES, operationTool } from '../operation-tool.ts'

const { text, source, supersedes } = AddMemoryEntry.properties

export const rememberTool = operationTool({
  name: 'remember',
  title: 'Remember a note',
  description:
    'Stores a short note for this account; later requests to language models receive it. To correct a note, pass the old one in supersedes; it is then no longer recalled.',
  operation: addMemoryEntry,
  input: Type.Object({ text, source, supersedes }, { additionalProperties: false }),
  annotations: CREATES,
  inputsOf: ({ source: from = 'agent', ...rest }) => ({ body: { ...rest, source: from } }),
})
