import { AnswerError, type BuilderClient } from './client.ts'
import { infer } from './steps.ts'

const TOOL = 'query_table'

/** The rows that a query over a table gives, or why this machine runs no tools. */
export type Queried = { rows: Record<string, unknown>[] } | { refused: string }

/** Has the tool `query_table` of the catalog answer a query over a CSV file. */
export async function queryTable(api: BuilderClient, csv: Buffer, sql: string): Promise<Queried> {
  try {
    const file = { name: 'diabetes.csv', bytes: csv, type: 'text/csv' }
    const { input_url } = await api.upload<{ input_url: string }>(`/endpoints/${TOOL}/upload-input`, file, {})
    const example_input = { file_url: input_url, sql }
    const { result } = await infer(api, { endpoint_id: TOOL, name: TOOL, example_input })
    return { rows: (result as { rows: Record<string, unknown>[] }).rows }
  } catch (err) {
    if (err instanceof AnswerError && err.code === 'no_capacity') return { refused: err.reason }
    throw err
  }
}
