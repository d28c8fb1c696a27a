/** Shows the description by Scalar, without what leads to its vendor. */
globalThis.Scalar.createApiReference('#reference', {
  url: new URL('../openapi.json', location.href).href,
  agent: { disabled: true },
  mcp: { disabled: true },
  hideClientButton: true,
  hideDarkModeToggle: true,
  showDeveloperTools: 'never',
  documentDownloadType: 'none',
  telemetry: false,
  withDefaultFonts: false,
})
