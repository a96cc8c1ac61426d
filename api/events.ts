import { debug, defineEvents, error, fatal, info, warn } from '../platform/events.ts'

/** Emits the gateway's log events; docs/events.md lists them. */
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
  'gateway.crashed': fatal('the gateway crashed with an uncaught error', { err: 'error' }),
  'keys.settle_failed': warn(
    'could not share the usage of limited keys between gateways; until this works, each counts only its own requests',
    {
      err: 'error',
    },
  ),
  'keys.use_unrecorded': warn('could not record when keys were last used', { err: 'error' }),
  'keys.streams_unchecked': warn('could not check whether the keys of open streams are still valid', {
    err: 'error',
  }),
  'gateway.lease_failed': warn("could not renew this gateway's lease", { err: 'error' }),

  'metrics.read_failed': warn('could not read some values for a scrape of the metrics', { err: 'error' }),

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
  'request.answer_failed': error('could not send an error response', { err: 'error' }),
  'mcp.refused': debug('rejected a Model Context Protocol message', { err: 'error' }),
  'connection.lost': debug('connection lost', { err: 'error' }),
  'request.timed_out': info('{message}', { request_id: 'string', status: 'number' }),

  'tool.name_taken': warn('skipped a tool because another endpoint has its name', { slug: 'string' }),
  'tools.refresh_failed': warn('could not read changes to tools; the next request will retry', {
    err: 'error',
  }),

  'memory.refresh_failed': warn('could not read the memory grants; requests use the last known grants', {
    err: 'error',
  }),
  'memory.unacknowledged': warn('not every gateway has acknowledged a change to memory grants', {
    version: 'number',
  }),
  'memory.unavailable': warn('could not read the memory for a request; it runs without memory', {
    err: 'error',
    task_id: 'string',
  }),
  'memory.not_ranked': warn('could not rank memory entries by similarity; using the newest entries', {
    err: 'error',
    account_id: 'string',
  }),
  'memory.note_failed': warn('could not record whether a task received its memory', {
    err: 'error',
    task_id: 'string',
  }),
  'memory.not_embedded': warn("could not embed an account's memory entries; will retry", {
    err: 'error',
    account_id: 'string',
  }),
  'memory.models_differ': warn(
    'the gateways are configured with different embedding models; memory snapshots are not rebuilt until they agree',
    { gateway_id: 'string' },
  ),
  'memory.upkeep_failed': warn('could not embed memory entries or request snapshots', {
    err: 'error',
  }),

  'link.accepted': info('a node opened a link', { node_id: 'string', link_version: 'number' }),
  'link.closed': info('the link to a node closed', {
    node_id: 'string',
    reason: 'string',
    unknown_frames: 'number?',
  }),
  'link.request_failed': error('the handler for a request over a link failed', {
    err: 'error',
    node_id: 'string',
  }),
  'link.unknown_frame': warn(
    'a node is sending frames of a type that this version does not know; they are ignored',
    { node_id: 'string', frame_type: 'number' },
  ),
  'node.record_failed': warn('could not record a node; it will reconnect', {
    err: 'error',
    node_id: 'string',
  }),
  'node.decisions_read_failed': warn('could not read decisions about nodes; will retry', {
    err: 'error',
  }),
  'node.deleted_models_failed': warn('could not read which models on nodes were deleted; will retry', {
    err: 'error',
  }),
  'node.load_check_failed': warn('could not check whether a node may load the models that it has', {
    err: 'error',
    node_id: 'string',
  }),
  'node.report_cut': warn(
    'a node is reporting too many models, or model keys that are too long; the excess is dropped',
    {
      node_id: 'string',
      models: 'number',
      kept: 'number',
    },
  ),
  'node.memory_write_failed': warn("could not store the nodes' memory; the next write includes it", {
    err: 'error',
  }),
  'node.states_write_failed': warn('could not write node states; the next report includes them again', {
    err: 'error',
  }),

  'model.load_promise_failed': warn("could not enqueue a model's load", {
    err: 'error',
    model_key: 'string',
  }),
  'model.load_time_failed': warn('could not record a load time', { err: 'error', model_key: 'string' }),
  'model.mark_failed': warn('could not mark a model as unusable', { err: 'error', model_key: 'string' }),
  'model.pins_failed': warn('could not plan which copies of models stay loaded', { err: 'error' }),
  'model.pins_planned': info('planned which nodes keep which models loaded', {
    add: 'json',
    drop: 'json',
    retire: 'json',
  }),
  'model.scaled': info("changed the planned number of a model's loaded copies", {
    model_key: 'string',
    before: 'number',
    copies: 'number',
    reason: 'string',
  }),
  'version.test_cancel_failed': debug('could not cancel the test of a deleted version', { err: 'error' }),

  'task.hand_over_failed': warn('could not hand a task over to a workflow yet', {
    err: 'error',
    task_id: 'string',
  }),
  'task.finish_failed': error('could not settle a running task', { err: 'error', task_id: 'string' }),
  'task.abandon_failed': warn('could not cancel the task after its client disconnected; the task continues', {
    err: 'error',
    task_id: 'string',
  }),
  'task.cancel_failed': debug("could not cancel a task's workflow", {
    err: 'error',
    task_id: 'string',
  }),
  'task.stream_close_failed': error("could not settle a stream's task", {
    err: 'error',
    task_id: 'string',
  }),
  'task.ends_read_failed': warn('could not read which tasks have ended', { err: 'error' }),
  'task.ends_notify_lost': warn(
    'lost the connection for notifications about ended tasks; relying on polling alone',
    {
      err: 'error',
    },
  ),
  'task.wake_failed': warn('could not wake tasks that are waiting for a node; they poll for one', {
    err: 'error',
  }),
  'task.woken': info('woke tasks that were waiting for a node', { tasks: 'number' }),
  'cohort.cancel_failed': warn("could not cancel a cancelled cohort's workflow", {
    err: 'error',
    cohort_id: 'string',
  }),
  'cohort.end_failed': debug('could not end a completed cohort; its workflow will', {
    err: 'error',
    cohort_id: 'string',
  }),
  'cohort.signal_failed': debug('could not notify a cohort that a stage has started', {
    err: 'error',
    cohort_id: 'string',
  }),
  'task.wake_signal_failed': debug('could not notify a task that a node has capacity', {
    err: 'error',
    task_id: 'string',
  }),
  'task.reaped': warn('failed the open tasks of a lost gateway', { count: 'number' }),
  'task.reap_failed': warn('could not check for tasks of lost gateways', { err: 'error' }),

  'spaces.not_derived': warn("could not derive a model's spaces from its files", {
    err: 'error',
    model_key: 'string',
  }),
  'cohort.edge_notify_lost': warn(
    'lost the connection for notifications about hand-overs; relying on polling alone',
    {
      err: 'error',
    },
  ),

  'stream.notify_lost': warn(
    'lost the connection for notifications about streams; relying on polling alone',
    {
      err: 'error',
      channel: 'string',
    },
  ),
  'job.report_store_failed': warn("could not store a job's logs or losses", {
    err: 'error',
    node_id: 'string',
  }),
  'job.claim_signal_failed': debug('could not notify the workflow of a claim', { err: 'error' }),
  'job.pause_signal_failed': debug('could not notify the workflow of a pause', { err: 'error' }),
  'job.cancel_failed': debug("could not cancel a cancelled run's workflow", { err: 'error' }),
  'checkpoint.delete_failed': warn('could not delete an old checkpoint', { err: 'error' }),

  'journal.write_failed': warn('could not write a group of rows; will retry', {
    err: 'error',
    rows: 'number',
  }),
  'journal.row_refused': error('could not write a row', { err: 'error' }),
  'outbox.read_failed': warn('could not read which workflows to start', { err: 'error' }),
  'outbox.start_failed': warn('could not start workflows yet; will retry', {
    reason: 'string?',
    waiting: 'number',
  }),
  'kill_switch.read_failed': warn('could not read the kill switch', { err: 'error' }),
  'kill_switch.signal_failed': warn('could not signal the kill switch workflow yet; will retry', {
    err: 'error',
    version: 'number',
  }),
  'kill_switch.unacknowledged': warn('not every gateway has acknowledged the kill switch', {
    live: 'number',
    acknowledged: 'number',
    version: 'number',
  }),
})
