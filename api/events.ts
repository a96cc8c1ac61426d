import { debug, defineEvents, error, fatal, info, warn } from '../platform/events.ts'

/** Emits what a gateway logs; docs/events.md lists it. */
export const emit = defineEvents({
  'gateway.started': info('the gateway is ready', {
    base_url: 'string',
    gateway_id: 'string',
    memory: 'string',
  }),
  'gateway.stopping': info('the gateway is stopping', { why: 'string' }),
  'gateway.stopped': info('the gateway has stopped', {}),
  'gateway.stop_failed': error('the gateway did not stop cleanly', { err: 'error' }),
  'gateway.misconfigured': fatal('{reason}', {}),
  'gateway.start_failed': fatal('the gateway did not start', { err: 'error' }),
  'gateway.crashed': fatal('uncaught', { err: 'error' }),
  'keys.settle_failed': warn(
    'the use of limited keys was not added up; each gateway counts alone until it is',
    {
      err: 'error',
    },
  ),
  'keys.use_unrecorded': warn('when keys were last used was not recorded', { err: 'error' }),
  'keys.streams_unchecked': warn('whether the keys of open streams still hold was not read', {
    err: 'error',
  }),
  'gateway.lease_failed': warn('the lease of this gateway was not renewed', { err: 'error' }),

  'request.answered': info(undefined, {
    request_id: 'string',
    method: 'string',
    path: 'string',
    operation: 'string?',
    account_id: 'string?',
    rpc_method: 'string?',
    tool: 'string?',
    status: 'number',
    code: 'string?',
    ms: 'number',
  }),
  'request.malformed': info('{message}', { request_id: 'string', status: 'number', reason: 'string?' }),
  'request.refused': debug('{message}', { err: 'error' }),
  'request.failed': error('{message}', { err: 'error' }),
  'request.answer_failed': error('an error could not be told', { err: 'error' }),
  'mcp.refused': debug('a message of the Model Context Protocol was refused', { err: 'error' }),
  'connection.lost': debug('connection lost', { err: 'error' }),
  'request.timed_out': info('{message}', { request_id: 'string', status: 'number' }),

  'tool.name_taken': warn('a tool is not offered, because another endpoint has its name', { slug: 'string' }),
  'tools.refresh_failed': warn('changes of tools were not read; the next request reads them', {
    err: 'error',
  }),

  'memory.refresh_failed': warn('the memory grants could not be read: requests go by those known before', {
    err: 'error',
  }),
  'memory.unacknowledged': warn('a change of memory grants was not acknowledged by every gateway', {
    version: 'number',
  }),
  'memory.unavailable': warn('a request goes without memory, because it could not be read', {
    err: 'error',
    task_id: 'string',
  }),
  'memory.not_ranked': warn('memory could not be searched by nearness: the newest entries are taken', {
    err: 'error',
    account_id: 'string',
  }),
  'memory.note_failed': warn('what became of the memory of a task could not be recorded', {
    err: 'error',
    task_id: 'string',
  }),
  'memory.not_embedded': warn('entries of an account could not be embedded: they are tried again', {
    err: 'error',
    account_id: 'string',
  }),
  'memory.models_differ': warn(
    'the gateways are set to different models of embeddings: no snapshot of memory is made anew until they agree',
    { gateway_id: 'string' },
  ),
  'memory.upkeep_failed': warn('entries of memory could not be embedded, or snapshots not be asked for', {
    err: 'error',
  }),

  'link.accepted': info('node linked', { node_id: 'string', link_version: 'number' }),
  'link.closed': info('link to a node closed', {
    node_id: 'string',
    reason: 'string',
    unknown_frames: 'number?',
  }),
  'link.request_failed': error('a request over a link failed in its handler', {
    err: 'error',
    node_id: 'string',
  }),
  'link.unknown_frame': warn(
    'a node sends frames of a type that this version does not know: they are passed over',
    { node_id: 'string', frame_type: 'number' },
  ),
  'node.record_failed': warn('a node could not be recorded; it links again', {
    err: 'error',
    node_id: 'string',
  }),
  'node.decisions_read_failed': warn('cannot see what was decided about nodes; trying again', {
    err: 'error',
  }),
  'node.deleted_models_failed': warn('cannot see which models of nodes were deleted; trying again', {
    err: 'error',
  }),
  'node.load_check_failed': warn('could not see whether a node may load what it has', {
    err: 'error',
    node_id: 'string',
  }),
  'node.report_cut': warn('a node reports more models than are told on, or keys that are too long', {
    node_id: 'string',
    models: 'number',
    kept: 'number',
  }),
  'node.states_write_failed': warn('node states were not written; the next report brings them again', {
    err: 'error',
  }),

  'model.load_promise_failed': warn('the load of a model could not be promised', {
    err: 'error',
    model_key: 'string',
  }),
  'model.load_time_failed': warn('a load time was not recorded', { err: 'error', model_key: 'string' }),
  'model.mark_failed': warn('a model was not marked unusable', { err: 'error', model_key: 'string' }),
  'model.pins_failed': warn('could not see to the models that are to be kept warm', { err: 'error' }),
  'model.pins_planned': info('decided which nodes keep which models loaded', {
    add: 'json',
    drop: 'json',
    retire: 'json',
  }),
  'model.scaled': info('decided how many copies of a model are loaded', {
    model_key: 'string',
    before: 'number',
    copies: 'number',
    reason: 'string',
  }),
  'version.test_cancel_failed': debug('the test of a deleted version was not told', { err: 'error' }),

  'task.hand_over_failed': warn('a task could not be handed over yet', { err: 'error', task_id: 'string' }),
  'task.finish_failed': error('a running task could not be finished', { err: 'error', task_id: 'string' }),
  'task.abandon_failed': warn('the task of a client that left goes on', { err: 'error', task_id: 'string' }),
  'task.cancel_failed': debug('the workflow of a task was not cancelled', {
    err: 'error',
    task_id: 'string',
  }),
  'task.stream_close_failed': error('the row of a stream was not closed', {
    err: 'error',
    task_id: 'string',
  }),
  'task.ends_read_failed': warn('cannot see which tasks have ended', { err: 'error' }),
  'task.ends_notify_lost': warn('the ends of tasks are looked for by polling alone', { err: 'error' }),
  'task.wake_failed': warn('tasks that wait for a node were not woken; they look for one themselves', {
    err: 'error',
  }),
  'task.woken': info('told tasks that wait for a node that there is room', { tasks: 'number' }),
  'cohort.cancel_failed': warn('the workflow of a cancelled cohort could not be told', {
    err: 'error',
    cohort_id: 'string',
  }),
  'cohort.end_failed': debug('a complete cohort was left to its workflow', {
    err: 'error',
    cohort_id: 'string',
  }),
  'cohort.signal_failed': debug('a cohort was not told that a stage has begun', {
    err: 'error',
    cohort_id: 'string',
  }),
  'task.wake_signal_failed': debug('a task was not told that there is room', {
    err: 'error',
    task_id: 'string',
  }),
  'task.reaped': warn('ended tasks of a lost gateway', { count: 'number' }),
  'task.reap_failed': warn('could not look for tasks of lost gateways', { err: 'error' }),

  'spaces.not_derived': warn('the spaces of a model were not derived from its files', {
    err: 'error',
    model_key: 'string',
  }),
  'cohort.edge_notify_lost': warn('news of hand-overs is looked for by polling alone', { err: 'error' }),

  'stream.notify_lost': warn('news for streams is looked for by polling alone', {
    err: 'error',
    channel: 'string',
  }),
  'job.report_store_failed': warn('logs or losses of a job were not stored', {
    err: 'error',
    node_id: 'string',
  }),
  'job.claim_signal_failed': debug('the workflow was not told of a claim', { err: 'error' }),
  'job.pause_signal_failed': debug('the workflow was not told of a pause', { err: 'error' }),
  'job.cancel_failed': debug('the workflow of a cancelled run was not told', { err: 'error' }),
  'checkpoint.delete_failed': warn('an old checkpoint was not deleted', { err: 'error' }),

  'journal.write_failed': warn('a group of rows was not written yet', { err: 'error', rows: 'number' }),
  'journal.row_refused': error('a row cannot be written', { err: 'error' }),
  'outbox.read_failed': warn('could not look for workflows to start', { err: 'error' }),
  'outbox.start_failed': warn('workflows not started yet', { reason: 'string?', waiting: 'number' }),
  'kill_switch.read_failed': warn('cannot read the kill switch', { err: 'error' }),
  'kill_switch.signal_failed': warn('kill switch workflow not told yet', { err: 'error', version: 'number' }),
  'kill_switch.unacknowledged': warn('not every gateway has acknowledged the kill switch', {
    live: 'number',
    acknowledged: 'number',
    version: 'number',
  }),
})
