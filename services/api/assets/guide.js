/** Leads links of before to the reference, which stood at this address, finds headings, and lets code be copied. */
if (/^#(tag|description|models?|webhook)\b/.test(location.hash)) location.replace(`docs/reference${location.hash}`)

if (matchMedia('(width < 56rem)').matches) document.querySelector('.contents details')?.removeAttribute('open')

const places = document.querySelector('#places')
const search = document.createElement('input')
Object.assign(search, { type: 'search', placeholder: 'Search', ariaLabel: 'Search the guides' })
search.setAttribute('list', places.id)
const goTo = place => place && location.assign(places.dataset.root + place.dataset.path)
search.addEventListener('input', () => goTo([...places.options].find(({ value }) => value === search.value)))
search.addEventListener('change', () => {
  const words = search.value.toLowerCase().match(/\S+/g) ?? []
  if (words.length > 0)
    goTo([...places.options].find(({ value }) => words.every(word => value.toLowerCase().includes(word))))
})
document.querySelector('header nav').append(search)

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
