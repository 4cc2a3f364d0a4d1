int crash(void);
static __attribute__((noinline)) int middle(void)
{
	int n = crash(); /* middle */
	return n * 2;
}
int main(void)
{
	int n = middle(); /* main */
	return n;
}
