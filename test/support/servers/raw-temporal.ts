import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Connection } from '@temporalio/client'
import proto from '@temporalio/proto'
import { localPlace, temporalChild, temporalReady } from '../../../embedded/temporal/server.ts'
import { freePorts } from '../../../platform/free-ports.ts'

const { workflowservice } = proto.temporal.api
const NAMESPACE = 'default'
const POLL_TIMEOUT_MS = 10_000
const DEADLINE_EXCEEDED = 4

/** A task of one account, enqueued as Hearth does. */
export interface RawTask {
  id: string
  account: string
  priority: number
}

/** Calls Temporal without a worker, so that a test decides which task is taken, and when. */
export class RawTemporal implements AsyncDisposable {
  private readonly connection: Connection
  private readonly end: () => Promise<void>

  private constructor(connection: Connection, end: () => Promise<void>) {
    this.connection = connection
    this.end = end
  }

  private get service(): Connection['workflowService'] {
    return this.connection.workflowService
  }

  /** Starts the server of an embedded platform on a SQLite file. */
  static async start(cli: string, file: string, cwd: string, partitions = 1): Promise<RawTemporal> {
    const [port = 0, uiPort = 0] = await freePorts(2)
    const spec = temporalChild(cli, { file, port, uiPort, cwd, namespace: NAMESPACE, partitions })
    const child = spawn(spec.command, spec.args, { cwd, env: spec.env, stdio: 'ignore' })
    const address = localPlace(`127.0.0.1:${port}`, NAMESPACE)
    await temporalReady(address, { timeoutMs: 120_000 })
    const connection = await Connection.connect(address)
    return new RawTemporal(connection, async () => {
      await connection.close()
      child.kill('SIGTERM')
      await once(child, 'exit')
    })
  }

  async startWorkflow({ id, account, priority }: RawTask, taskQueue: string): Promise<void> {
    const request = workflowservice.v1.StartWorkflowExecutionRequest.fromObject({
      namespace: NAMESPACE,
      workflowId: id,
      requestId: id,
      workflowType: { name: 'waiting' },
      taskQueue: { name: taskQueue },
      priority: { priorityKey: priority, fairnessKey: account },
    })
    await this.service.startWorkflowExecution(request)
  }

  /** Starts a workflow on the queue `control` that schedules one activity on `taskQueue`. */
  async enqueueActivity(task: RawTask, taskQueue: string): Promise<void> {
    const { id, account, priority } = task
    await this.startWorkflow(task, 'control')
    const { taskToken } = (await this.pollWorkflow('control')) ?? {}
    const schedule = {
      activityId: id,
      activityType: { name: 'train' },
      taskQueue: { name: taskQueue },
      startToCloseTimeout: { seconds: 3600 },
      scheduleToCloseTimeout: { seconds: 86_400 * 36_500 },
      priority: { priorityKey: priority, fairnessKey: account },
    }
    const answer = workflowservice.v1.RespondWorkflowTaskCompletedRequest.fromObject({
      taskToken,
      namespace: NAMESPACE,
      identity: 'test',
      commands: [
        {
          commandType: 'COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK',
          scheduleActivityTaskCommandAttributes: schedule,
        },
      ],
    })
    await this.service.respondWorkflowTaskCompleted(answer)
  }

  /** Takes the next activity from a queue; returns undefined if none is waiting. */
  async takeActivity(taskQueue: string): Promise<string | undefined> {
    const request = workflowservice.v1.PollActivityTaskQueueRequest.fromObject({
      namespace: NAMESPACE,
      taskQueue: { name: taskQueue },
      identity: 'test',
    })
    const answer = await this.polled(() => this.service.pollActivityTaskQueue(request))
    return answer?.activityId || undefined
  }

  /** Takes the next workflow task from a queue; returns the workflow's ID, or undefined if none is waiting. */
  async takeWorkflow(taskQueue: string): Promise<string | undefined> {
    return (await this.pollWorkflow(taskQueue))?.workflowExecution?.workflowId || undefined
  }

  async createSchedule(id: string): Promise<void> {
    const request = workflowservice.v1.CreateScheduleRequest.fromObject({
      namespace: NAMESPACE,
      scheduleId: id,
      requestId: id,
      schedule: {
        spec: { interval: [{ interval: { seconds: 3600 } }] },
        action: {
          startWorkflow: {
            workflowId: id,
            workflowType: { name: 'waiting' },
            taskQueue: { name: 'waiting' },
          },
        },
      },
    })
    await this.service.createSchedule(request)
  }

  private pollWorkflow(taskQueue: string) {
    const request = workflowservice.v1.PollWorkflowTaskQueueRequest.fromObject({
      namespace: NAMESPACE,
      taskQueue: { name: taskQueue },
      identity: 'test',
    })
    return this.polled(() => this.service.pollWorkflowTaskQueue(request))
  }

  /** Treats an expired poll as an empty queue. */
  private async polled<Answer>(call: () => Promise<Answer>): Promise<Answer | undefined> {
    try {
      return await this.connection.withDeadline(Date.now() + POLL_TIMEOUT_MS, call)
    } catch (err) {
      if ((err as { code?: unknown }).code === DEADLINE_EXCEEDED) return undefined
      throw err
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.end()
  }
}
