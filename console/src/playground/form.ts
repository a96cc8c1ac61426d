// The styles that only schema forms use, in Mantine's order; the build fails if one is missing (mantine-styles.ts).
import '@mantine/core/styles/Flex.css'
import '@mantine/core/styles/ColorSwatch.css'
import '@mantine/core/styles/ColorPicker.css'
import '@mantine/core/styles/ColorInput.css'
import '@mantine/core/styles/Container.css'
import '@mantine/core/styles/Fieldset.css'
import '@mantine/core/styles/Grid.css'
import '@mantine/core/styles/RadioCard.css'
import '@mantine/core/styles/RadioIndicator.css'
import '@mantine/core/styles/Radio.css'
import '@mantine/core/styles/Slider.css'

export { default as Form } from '@rjsf/mantine'
