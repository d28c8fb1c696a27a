import { Link } from '@tanstack/react-router'

/** An item by its name, which leads to its page; pointed at, one that is cut is whole. */
export const ItemLink = ({ id, name, phase }: { id: number; name: string; phase: string | null }) => (
  <>
    <Link to="/item/$itemId" params={{ itemId: String(id) }} title={name}>
      {name}
    </Link>
    {phase !== null && <span className="tag">{phase}</span>}
  </>
)
