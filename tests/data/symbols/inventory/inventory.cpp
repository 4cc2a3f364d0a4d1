// An inventory that keeps a pointer to an article which it has sold out.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

struct Article {
	std::string name;
	int count;
	bool available() const { return count > 0; }
};

class Inventory {
	std::vector<Article *> articles;

public:
	void add(const char *name, int count) { articles.push_back(new Article{name, count}); }
	Article *find(size_t i) { return articles.at(i); }
	void sold_out(size_t i)
	{
		delete articles.at(i);
	}
};

static int take(Article *article, int wanted)
{
	return article->available() ? article->count - wanted : 0;
}

__attribute__((noinline)) int order(Inventory &inventory, size_t which, int wanted)
{
	return take(inventory.find(which), wanted);
}

__attribute__((noinline)) void fill(Inventory &inventory, int count)
{
	for (int i = 0; i < count; i++)
		inventory.add("article", i + 1);
}

__attribute__((noinline)) void close_day(Inventory &inventory)
{
	inventory.sold_out(2);
}

int main()
{
	Inventory inventory;
	fill(inventory, 4);
	int left = order(inventory, 1, 1);
	close_day(inventory);
	left += order(inventory, 2, 1);
	printf("%d\n", left);
}
