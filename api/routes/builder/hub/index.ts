import { getHubModel } from './get-hub-model.ts'
import { registerHubModel } from './register-hub-model.ts'
import { searchHub } from './search-hub.ts'

export const hub = [searchHub, getHubModel, registerHubModel]
