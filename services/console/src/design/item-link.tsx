import { useRouter } from '@tanstack/react-router'
import type { MouseEvent } from 'react'

/**
 * An item by its name, which leads to its page; pointed at, one that is cut is whole.
 *
 * A plain link: the router's own looks at each new address, and a table has a hundred of them.
 */
export function ItemLink({ id, name, phase }: { id: number; name: string; phase: string | null }) {
  const router = useRouter()
  const target = { to: '/item/$itemId', params: { itemId: String(id) } } as const
  const open = (event: MouseEvent): void => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    event.preventDefault()
    void router.navigate(target)
  }
  return (
    <>
      <a href={router.history.createHref(router.buildLocation(target).publicHref)} title={name} onClick={open}>
        {name}
      </a>
      {phase !== null && <span className="tag">{phase}</span>}
    </>
  )
}
