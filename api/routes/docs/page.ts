/** All assets come from this gateway: the page runs no script and reads no data from elsewhere. */
const CSP = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

export const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Hearth API</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="icon" type="image/png" href="docs/favicon-32x32.png">
</head>
<body>
<div id="ui"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
`
export const START = `SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#ui',
  deepLinking: true,
  filter: true,
  validatorUrl: null,
  persistAuthorization: false,
})
`

export const pageHeaders = (type: string) => ({
  'content-type': type,
  'content-security-policy': CSP,
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-cache',
})
