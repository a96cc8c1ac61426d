import { getStructuredRun } from './get-structured-run.ts'
import { registerEvidence } from './register-evidence.ts'
import { registerModelSpaces } from './register-model-spaces.ts'
import { revokeEvidence } from './revoke-evidence.ts'
import { revokeModelSpaces } from './revoke-model-spaces.ts'
import { startStructuredRun } from './start-structured-run.ts'

/** The routes with which evaluators declare models' spaces, and evidence that one space may replace another. */
export const evaluator = [
  registerModelSpaces,
  registerEvidence,
  startStructuredRun,
  getStructuredRun,
  revokeModelSpaces,
  revokeEvidence,
]
