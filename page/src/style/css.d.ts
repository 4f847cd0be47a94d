/** Style sheets are bundled by the build; they export nothing. */
declare module "*.css";
