import { debug, defineEvents, error, info, warn } from '../platform/events.ts'

/** Logs events of a node's models, links and environments; docs/events.md lists them. */
export const emit = defineEvents({
  'model.loaded': info('loaded a model', { model_key: 'string', ms: 'number' }),
  'model.load_failed': warn('could not load a model', { model_key: 'string', err: 'string' }),
  'model.engine_failed': warn('a preferred engine could not serve a model: trying the next one', {
    model_key: 'string',
    profile: 'string',
    err: 'string',
  }),
  'model.adapter_failed': warn(
    'a model could not be served as an adapter of its base: serving its own weights',
    {
      model_key: 'string',
      base_key: 'string',
      err: 'string',
    },
  ),
  'model.serving_unread': warn(
    'no gateway returned how to serve a model: using the settings from `read_at`, or from its download',
    { model_key: 'string', read_at: 'string?' },
  ),
  'model.adapters_refused': warn('a server did not start with support for adapters: trying without', {
    model_key: 'string',
    err: 'string',
  }),
  'model.files_freed': info('the files of a deleted model were removed', { model_key: 'string' }),
  'model.files_not_freed': warn('the files of a deleted model could not be removed; trying again', {
    err: 'error',
    model_key: 'string',
  }),
  'model.unloaded_idle': info('an idle model was unloaded', { model_key: 'string', idle_s: 'number' }),
  'model.asleep': info('an idle model was put to sleep', {
    model_key: 'string',
    ms: 'number',
    memory_mb: 'number',
    ram_mb: 'number',
  }),
  'model.not_asleep': info('an idle model could not be put to sleep: stopping it', {
    model_key: 'string',
    err: 'string',
  }),
  'model.woken': info('woke a sleeping model', { model_key: 'string', ms: 'number' }),
  'model.wake_failed': warn('a sleeping model could not be woken: loading it again', {
    model_key: 'string',
    err: 'string',
  }),
  'model.sleep_ended': info('a sleeping model was stopped because RAM is needed', { model_key: 'string' }),
  'model.server_died': warn('a model server exited unexpectedly', { model_key: 'string', err: 'string?' }),
  'model.weights_damaged': warn('weights on this disk are damaged: downloading them again', {
    model_key: 'string',
  }),
  'model.compared': info('a converted model was compared with its original', {
    model_key: 'string',
    file: 'string',
    difference: 'number?',
    problem: 'string?',
  }),
  'model.not_compared': warn(
    "a file that came with a model could not be compared with the model's weights: using it unverified",
    {
      model_key: 'string',
      err: 'string',
    },
  ),
  'cohort.payload_lost': warn('a payload was dropped before its consumer received it', { err: 'error' }),
  'disk.full': error("one of this node's disks is full: runs cannot start here until space is freed", {
    free_mb: 'number',
  }),
  'disk.usable': info("this node's disks have free space again", {}),
  'gpu.usable': info('programs on this node can use its GPUs', { devices: 'number' }),
  'gpu.unusable': error('programs on this node cannot use its GPUs: work placed on them will fail', {
    reason: 'string',
  }),
  'gpu.runs_stopped': warn('this node will not accept GPU runs until a probe finds its GPUs usable', {}),
  'gpu.runs_resumed': info('this node accepts GPU runs again', {}),
  'memory.retained': error("a stopped model's memory has not been freed", {
    model_key: 'string',
    pids: 'number[]',
    memory_mb: 'number',
    s: 'number',
  }),
  'memory.awaited': info('waiting before evicting recently loaded models', {
    holder: 'string',
    model_keys: 'string[]',
    wait_ms: 'number',
  }),
  'memory.unmeasured': error(
    "cannot determine whether a stopped model's memory has been freed: assuming that it has",
    {
      model_key: 'string',
      pids: 'number[]',
      memory_mb: 'number',
      s: 'number',
    },
  ),
  'tool.unconfined': warn('this node cannot run tools because it cannot confine them: {lack}', {}),
  'tool.list_failed': warn("the operators' tools could not be read", { err: 'error' }),
  'tool.start_failed': warn('a tool could not be started', { slug: 'string', err: 'error' }),
  'link.opened': info('link open', { gateway: 'string', link_version: 'number' }),
  'link.lost': warn('lost the link to a gateway', {
    gateway: 'string',
    reason: 'string',
    retry_ms: 'number',
  }),
  'link.interrupted': debug('the link to a gateway was interrupted', {
    gateway: 'string',
    reason: 'string',
    retry_ms: 'number',
  }),
  'link.unanswered': warn('no gateway in the list is responding: trying the configured one as well', {
    gateway: 'string',
  }),
  'gateway.unknown_frame': warn('a gateway is sending frames of an unknown type: ignoring them', {
    gateway: 'string',
    frame_type: 'number',
  }),
  'environment.progressed': info('{line}', {}),
  'environment.install_failed': warn('an environment could not be installed', {
    environment: 'string',
    err: 'string',
  }),
  'environment.not_prepared': warn('an environment is not prepared: {problem}', { environment: 'string' }),
})
