package marketlog;

import java.util.Arrays;

/**
 * One provider: the refresh that is under way, and what the last judged refresh left. Columns by item id; an entry
 * counts only with the current epoch, so that a refresh is forgotten by raising it.
 */
final class Staging {
    final String provider;
    long[] price = new long[1024];
    int[] quantity = new int[1024];
    private int[] epochs = new int[1024];
    private int epoch = 1;

    String openId;
    String openCurrency;
    int nextIndex;
    boolean hasGap;
    int unresolved;
    int rejected;
    int items;

    /** Of the last judged refresh. */
    long lastObservedAt;
    String currency = "";

    Staging(String provider) {
        this.provider = provider;
    }

    void open(String id, String itsCurrency) {
        drop();
        openId = id;
        openCurrency = itsCurrency;
        nextIndex = 1;
        hasGap = false;
        unresolved = 0;
        rejected = 0;
        items = 0;
    }

    void drop() {
        openId = null;
        epoch += 1;
    }

    boolean isStaged(int itemId) {
        return itemId < epochs.length && epochs[itemId] == epoch;
    }

    int capacity() {
        return epochs.length;
    }

    /** An item seen twice keeps the lower ask; at an equal price the quantities add up. */
    void stage(int itemId, long seenPrice, int seenQuantity) {
        if (itemId >= epochs.length) grow(itemId);
        if (epochs[itemId] != epoch) {
            epochs[itemId] = epoch;
            price[itemId] = seenPrice;
            quantity[itemId] = seenQuantity;
            items += 1;
        } else if (seenPrice == price[itemId]) {
            quantity[itemId] = (int) Math.min(Integer.MAX_VALUE, (long) quantity[itemId] + seenQuantity);
        } else if (seenPrice < price[itemId]) {
            price[itemId] = seenPrice;
            quantity[itemId] = seenQuantity;
        }
    }

    private void grow(int itemId) {
        int capacity = Math.max(epochs.length * 2, itemId + 1);
        price = Arrays.copyOf(price, capacity);
        quantity = Arrays.copyOf(quantity, capacity);
        epochs = Arrays.copyOf(epochs, capacity);
    }
}
