import { Alert, Badge, createTheme, type CSSVariablesResolver } from '@mantine/core'

/** Shades are chosen for a contrast of 4.5 in both schemes (test/console). */
export const theme = createTheme({
  primaryColor: 'indigo',
  primaryShade: { light: 7, dark: 8 },
  autoContrast: true,
  defaultRadius: 'md',
  cursorType: 'pointer',
  components: {
    // By default an alert's title has the alert's color, which has too little contrast in both schemes.
    Alert: Alert.extend({ styles: { label: { color: 'var(--mantine-color-text)' } } }),
    Badge: Badge.extend({ defaultProps: { radius: 'sm' }, styles: { label: { textTransform: 'none' } } }),
  },
})

/** Mantine's own dimmed text and errors have a contrast of 3.3. */
export const variables: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    '--mantine-color-dimmed': '#5c636a',
    '--mantine-color-placeholder': '#5c636a',
    '--mantine-color-error': '#b3261e',
    '--mantine-color-indigo-light-hover': '#dbe4ff',
  },
  dark: {
    '--mantine-color-dimmed': '#a6a7ab',
    '--mantine-color-placeholder': '#a6a7ab',
    '--mantine-color-error': '#ffb0a8',
  },
})
