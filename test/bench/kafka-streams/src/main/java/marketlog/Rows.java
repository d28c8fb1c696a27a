package marketlog;

import java.util.Arrays;

/** The rows that a provider lists, in columns by item id: read from the store for one judgement, then cleared. */
final class Rows {
    long[] price = new long[1024];
    long[] microUsd = new long[1024];
    int[] quantity = new int[1024];
    int listed;
    private int end;

    void clear() {
        Arrays.fill(price, 0, end, 0);
        end = 0;
        listed = 0;
    }

    /** The first id that no row and no reserved id reaches. */
    int end() {
        return end;
    }

    void reserve(int itemId) {
        if (itemId >= price.length) {
            int capacity = Math.max(price.length * 2, itemId + 1);
            price = Arrays.copyOf(price, capacity);
            microUsd = Arrays.copyOf(microUsd, capacity);
            quantity = Arrays.copyOf(quantity, capacity);
        }
        end = Math.max(end, itemId + 1);
    }

    /** Sets a row or, with a price of 0, clears it. */
    void set(int itemId, long itsPrice, long micro, int itsQuantity) {
        reserve(itemId);
        listed += (itsPrice > 0 ? 1 : 0) - (price[itemId] > 0 ? 1 : 0);
        price[itemId] = itsPrice;
        microUsd[itemId] = micro;
        quantity[itemId] = itsQuantity;
    }
}
