import { MantineProvider } from '@mantine/core'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import './mantine.ts'
import './app.css'
import { router } from './router.tsx'
import { readKeysFromUrl, useKey } from './session.ts'
import { SignIn } from './sign-in.tsx'
import { theme, variables } from './theme.ts'

const queries = new QueryClient({ defaultOptions: { queries: { refetchOnWindowFocus: true } } })
/** Style elements that components add need this document's nonce. */
const nonce = document.querySelector<HTMLScriptElement>('script[nonce]')?.nonce ?? ''

function App() {
  const key = useKey('api')
  if (key === null) return <SignIn onSignedIn={() => queries.clear()} />
  return <RouterProvider router={router} />
}

readKeysFromUrl()
window.addEventListener('hashchange', readKeysFromUrl)
const root = document.getElementById('root')
if (root)
  createRoot(root).render(
    <StrictMode>
      <MantineProvider
        theme={theme}
        cssVariablesResolver={variables}
        defaultColorScheme="auto"
        getStyleNonce={() => nonce}
      >
        <QueryClientProvider client={queries}>
          <App />
        </QueryClientProvider>
      </MantineProvider>
    </StrictMode>,
  )
