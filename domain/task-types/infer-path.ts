const PLACE = '/{task_type}'

/**
 * Fills the task type into the `infer_path` of a runtime profile. Without one the path is that of the first task of the
 * weights.
 */
export const inferPathOf = (template: string, taskType: string | undefined): string =>
  template.replace(PLACE, taskType === undefined ? '' : `/${encodeURIComponent(taskType)}`)
