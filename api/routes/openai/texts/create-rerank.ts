import { CreateRerank, Reranking } from '../../../../schemas/openai/texts.ts'
import { route } from '../../../http/route.ts'
import { MAX_INFER_BYTES } from '../../../inference/admit.ts'
import { CALL_ERRORS } from '../calls/model-call.ts'
import { answerTexts, type TextsRoute } from './answer-texts.ts'

const SERVED: TextsRoute = {
  path: '/v1/rerank',
  serves: (taskType) => taskType === 'rerank',
  words: 'for reranking',
}

/** The same route under `/v1`, which the clients of Jina and vLLM use, and under `/v2`, which Cohere's clients use. */
const rerank = (operationId: string) =>
  route({
    operationId,
    summary: 'Rank documents by their relevance to a query',
    method: 'POST',
    path: '/rerank',
    auth: 'api-key',
    admitsWork: true,
    isHot: true,
    body: CreateRerank,
    maxBodyBytes: MAX_INFER_BYTES,
    success: { status: 200, schema: Reranking },
    errors: CALL_ERRORS,

    handler: (request, services) => answerTexts(services, request, SERVED),
  })

export const createRerank = rerank('createRerank')
export const createCohereRerank = rerank('createCohereRerank')
