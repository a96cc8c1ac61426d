const PLACE = '/{task_type}'

/**
 * Fills the task type into the `infer_path` of a runtime profile. Without a task type, uses the path of the weights'
 * first task.
 */
export const inferPathOf = (template: string, taskType: string | undefined): string =>
  template.replace(PLACE, taskType === undefined ? '' : `/${encodeURIComponent(taskType)}`)
