import { fileURLToPath } from 'node:url'
import { CHAT_PATH } from '../../../domain/chat/chat.ts'
import { loadCatalog as loadReal } from '../../../platform/catalog.ts'
import type { Catalog } from '../../../platform/catalog.ts'
import type { RuntimeProfile } from '../../../schemas/nodes/runtime-profile.ts'

export * from '../../../platform/catalog.ts'

export const FAKE_PROFILE: RuntimeProfile = {
  profile_id: 'fake-llm',
  display_name: 'Fake language model server',
  description: 'For tests.',
  driver: 'process',
  python_env: null,
  command: ['{node}', fileURLToPath(new URL('../servers/nodes/fake-llm.ts', import.meta.url)), '{model_dir}'],
  env: {},
  health_path: '/health',
  infer_path: CHAT_PATH,
  task_types: ['chat'],
  requires_gpu: false,
  memory_mb: 50,
  vram_mb: 0,
  threads: 1,
  max_concurrency: 64,
  start_timeout_s: 60,
  stop_grace_s: 0.2,
}

/** Returns the project's catalog plus the fake language model server. */
export function loadCatalog(directory?: string): Catalog {
  const catalog = loadReal(directory)
  return {
    ...catalog,
    profiles: [...catalog.profiles, FAKE_PROFILE],
    profile: (id) => (id === FAKE_PROFILE.profile_id ? FAKE_PROFILE : catalog.profile(id)),
  }
}
