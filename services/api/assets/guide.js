/** Leads links of before to the reference, which stood at this address, and lets code be copied. */
if (/^#(tag|description|models?|webhook)\b/.test(location.hash)) location.replace(`docs/reference${location.hash}`)

// A page that is not of a secure context has no clipboard.
for (const block of navigator.clipboard ? document.querySelectorAll('.code') : []) {
  const button = document.createElement('button')
  Object.assign(button, { type: 'button', className: 'copy', textContent: 'Copy' })
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(block.querySelector('code').textContent)
    button.textContent = 'Copied'
  })
  block.append(button)
}
